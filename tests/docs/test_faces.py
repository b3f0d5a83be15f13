"""Each feature has a face, its `__init__.py`, and other packages use the feature through it."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from inspect import getsource

import pytest

from scripts import figures

FEATURES = sorted(figures.FEATURES - {"api", "reader"})
"""The features that others use; `server` alone uses the interfaces."""


@pytest.mark.parametrize("feature", FEATURES)
def test_every_name_of_a_face_can_be_imported(feature: str) -> None:
    """None is missing, or hidden by a module of the same name."""
    face = import_module(f"microsub.{feature}")
    nodes = [node for node in ast.walk(ast.parse(getsource(face))) if isinstance(node, ast.ImportFrom)]
    names = [name.name for node in nodes if f"{node.module}.".startswith(f"microsub.{feature}.") for name in node.names]
    assert names
    for name in names:
        assert find_spec(f"microsub.{feature}.{name}") is None
        assert getattr(face, name) is not None


def test_features_are_used_through_their_faces() -> None:
    """No package imports an inner module of a feature, except `server`, which takes routes, pages and parsers."""
    past = [
        f"{path.relative_to(figures.ROOT)}: {name}"
        for path, tree in figures.modules().items()
        for name in figures.imports(tree)
        if name.count(".") > 1 and name.split(".")[1] in FEATURES
        if figures.package(path) not in {name.split(".")[1], "server"}
    ]
    assert past == []
