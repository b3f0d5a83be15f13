"""Pure data: what travels between the layers. Nothing here does I/O."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.model.checks import after, before, misfit
    from microsub.model.filters import PatternError, compiled
    from microsub.model.selectors import BadSelector, unfit_selector, xpath_of
else:
    __getattr__ = lazy_exports(__name__, __file__)
