"""HTTP for all features: bodies, parameters, replies, headers."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.web.environment import environment_of
else:
    __getattr__ = lazy_exports(__name__, __file__)
