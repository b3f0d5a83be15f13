"""Names in backticks in the documents exist: paths, folders, and dotted names of modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "microsub"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FEATURES = {path.stem for path in PRODUCT.iterdir() if path.is_dir() or path.suffix == ".py"} - {"__pycache__"}
TOPS = FEATURES | {"microsub", "microsub_conformance", "microsub_demo", "tests", "scripts", "docs", "benchmarks"}
NAMED = re.compile(r"`([A-Za-z_]+(?:[./][A-Za-z_0-9]+)*/?(?:\.[a-z]+)?)(?:::\w+)?`")
NO_MODULES = re.compile(
    r"(?:delivery|identity|polling|retention|cache|settings|hub)\.[a-z_]+|redis\.conf|reader\.(?:example|py)|support/web\.py"
)
"""Keys of backend.json and of WebSub's forms, another project's file, a file of the tests, and the example host."""


def named(text: str) -> list[str]:
    """Names in backticks that look like a path or module of this repository."""
    return [one for one in NAMED.findall(text) if re.search(r"[./]", one) and re.split(r"[./]", one)[0] in TOPS]


def exists(name: str) -> bool:
    """Whether `name` is a file or folder of the repository or the package, or a module, or something in a module."""
    if any((folder / name).exists() for folder in (ROOT, PRODUCT)):
        return True
    parts = name.removeprefix("microsub.").split(".")
    if (PRODUCT.joinpath(*parts)).is_dir() or PRODUCT.joinpath(*parts).with_suffix(".py").exists():
        return True
    module = PRODUCT.joinpath(*parts[:-1])
    files = [module.with_suffix(".py"), module / "__init__.py"] if len(parts) > 1 else [PRODUCT / "__init__.py"]
    return any(file.exists() and re.search(rf"\b{parts[-1]}\b", file.read_text("utf-8")) for file in files)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_paths_and_modules_exist(page: Path) -> None:
    """Every path and every dotted module in backticks is one of this repository."""
    missing = [
        name for name in named(page.read_text(encoding="utf-8")) if not exists(name) and not NO_MODULES.fullmatch(name)
    ]
    assert not missing, f"{page.relative_to(ROOT)} names {sorted(set(missing))}"


def test_a_name_that_is_gone_is_found() -> None:
    """A path and a module that don't exist are found; words and commands aren't taken for paths."""
    text = "`services/identity`, `pipeline.md`, `timelines.nothing`, `polling/gone.py`, `microsub work`, `a/b`"
    assert [name for name in named(text) if not exists(name)] == ["timelines.nothing", "polling/gone.py"]
