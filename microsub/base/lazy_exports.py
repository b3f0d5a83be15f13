"""Packages that import their modules at the first use, so that commands start fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_exports(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package (PEP 562); `places` maps names to the modules that define them."""

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"{package} has no {name}")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return find
