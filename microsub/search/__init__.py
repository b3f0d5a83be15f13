"""Full-text search in posts: one index for all users, with a replica on each machine.

PostSearch      answers requests, from the index and the user's own timelines
IndexReader     reads the index in threads              IndexFollower   updates it when posts change
IndexFolder     its files                              IndexFigures    its statistics
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.search.index import is_supported as is_supported
    from microsub.search.index_follower import STANDING_BY as STANDING_BY
    from microsub.search.index_follower import FollowTiming as FollowTiming
    from microsub.search.index_follower import IndexFollower as IndexFollower
    from microsub.search.post_search import PostSearch as PostSearch
    from microsub.search.replica import IndexFigures as IndexFigures
    from microsub.search.replica import IndexFolder as IndexFolder
    from microsub.search.replica import IndexReader as IndexReader

__getattr__ = lazy_exports(
    __name__,
    {
        "is_supported": "index",
        "STANDING_BY": "index_follower",
        "FollowTiming": "index_follower",
        "IndexFollower": "index_follower",
        "PostSearch": "post_search",
        "IndexFigures": "replica",
        "IndexFolder": "replica",
        "IndexReader": "replica",
    },
)
