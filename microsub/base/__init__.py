"""Code that is independent of features: URLs, rate limits, caches with single flight, periodic jobs, HTTP."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.base import logs, metrics
else:
    __getattr__ = lazy_exports(__name__, __file__)
