"""Posts, each stored once: ingest, duplicates, deletion."""

from microsub.posts.garbage import Candidate, newest_id, stored_ids
from microsub.posts.imported import COPY, Imported
from microsub.posts.items import AWAY, PIECE, Items, within
from microsub.posts.values import (
    BY_USER,
    OWN,
    WRITTEN_GUID,
    EntriesFound,
    ItemIncomplete,
    ItemsStored,
    ItemToStore,
    version_of,
)

__all__ = [
    "AWAY",
    "BY_USER",
    "COPY",
    "OWN",
    "PIECE",
    "WRITTEN_GUID",
    "Candidate",
    "EntriesFound",
    "Imported",
    "ItemIncomplete",
    "ItemToStore",
    "Items",
    "ItemsStored",
    "newest_id",
    "stored_ids",
    "version_of",
    "within",
]
