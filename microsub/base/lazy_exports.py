"""Faces of packages: what others may use of a package, each module loaded at the first use of one of its names.

So a process loads what its work needs, and no code has to choose a moment to import.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path


def lazy_exports(package: str, file: str) -> Callable[[str], object]:
    """The `__getattr__` of a package (PEP 562), whose `file` imports all its names under `if TYPE_CHECKING`.

    So type checkers, people and this function read the same list. An import from the package itself is of a module.
    """

    @cache
    def places() -> Mapping[str, str]:
        blocks = [node for node in ast.parse(Path(file).read_bytes()).body if isinstance(node, ast.If)]
        imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
        return {alias.name: node.module or "" for node in imports for alias in node.names}

    def find(name: str) -> object:
        if name.startswith("__") or name not in places():
            raise AttributeError(f"{package} has no {name}")
        place = places()[name]
        if place == package:
            return import_module(f"{package}.{name}")
        found: object = getattr(import_module(place), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
