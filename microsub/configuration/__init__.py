"""Settings that backend.json declares."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.configuration.shape import check_shape
else:
    __getattr__ = lazy_exports(__name__, __file__)
