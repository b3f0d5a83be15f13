"""Answers: replies, likes, reposts and bookmarks on the user's own site."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.base.sealing import seal, unseal
else:
    __getattr__ = lazy_exports(__name__, __file__)
