"""The post store for programs: as a Python library and over HTTP."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.post_store.api import PostStoreEndpoint
    from microsub.post_store.posts import EventPage, FeedPage, Post, PostPage, Posts
    from microsub.post_store.store import PostStore, Saved
else:
    __getattr__ = lazy_exports(__name__, __file__)
