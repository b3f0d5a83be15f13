"""Full-text search in posts: one index for all users, with a replica on each machine.

PostSearch      answers requests, from the index and the user's own timelines
IndexReader     reads the index in threads              IndexFollower   updates it when posts change
IndexFolder     its files                              IndexFigures    its statistics
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.search.index import is_supported
    from microsub.search.index_follower import STANDING_BY, FollowTiming, IndexFollower
    from microsub.search.post_search import PostSearch
    from microsub.search.replica import IndexFigures, IndexFolder, IndexReader
else:
    __getattr__ = lazy_exports(__name__, __file__)
