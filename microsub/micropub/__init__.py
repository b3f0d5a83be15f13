"""Micropub: posts that scripts and apps send into a channel of a user (https://www.w3.org/TR/micropub/)."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.micropub.api import MEDIA_PATHS, MediaEndpoint, MicropubEndpoint, MicropubServices, PostEndpoint
    from microsub.micropub.media import Media
    from microsub.micropub.posting import Posting
    from microsub.micropub.sources import Sources
else:
    __getattr__ = lazy_exports(__name__, __file__)
