"""Parses foreign documents in processes with limits of processor time and memory."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.parsing.results import reader
else:
    __getattr__ = lazy_exports(__name__, __file__)
