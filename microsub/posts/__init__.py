"""Posts, each stored once: ingest, duplicates, deletion."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.posts.entries import POSTS_IN, PostsRead, content_hash, items_to_store, scores_of, settled
    from microsub.posts.full_text import AUTOMATIC, FULL, FULL_OF, Texts, stored_full_text
    from microsub.posts.garbage import Candidate, newest_id, stored_ids, without_item
    from microsub.posts.imported import COPY, Imported
    from microsub.posts.ingest import (
        NO_ARTICLES,
        Ingest,
        Ingested,
        OwnRoom,
        PostWriter,
        look_ups_of,
        may_want_articles,
    )
    from microsub.posts.items import AWAY, PIECE, Items, within
    from microsub.posts.messages import (
        ARTICLES,
        EntriesFound,
        ItemIncomplete,
        ItemsStored,
        articles_wanted,
        version_of,
    )
    from microsub.posts.repacking import Repacking, RepackingReport
    from microsub.posts.values import BY_USER, OWN, WRITTEN_GUID, ItemToStore
else:
    __getattr__ = lazy_exports(__name__, __file__)
