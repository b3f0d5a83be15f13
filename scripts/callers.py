"""Public functions, classes and methods of the product that the product doesn't use.

`python scripts/callers.py` lists them, and exits with 1 if there are any. A name counts as used if product code or a
template contains it, so two things with the same name hide each other. Whatever is listed is unused, or called by a
framework, or offered to other programs; `OFFERED` lists the latter with reasons.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

OFFERED = {
    "microsub/library/": "the library for programs",
    "microsub/post_store/store.py": "the library for programs",
    "microsub/cache/": "the feed cache, usable alone",
    "microsub/formats/write.py": "the writers for programs",
}

_CALLED_BY_FRAMEWORKS = re.compile(
    r"handle_\w+|visit_\w+|on_\w+|get_command|list_commands|format_\w+|data_received|eof_received|capture_signals"
    r"|push_content"
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The public names of a module, at its top level and in its classes."""
    for node in tree.body:
        if isinstance(node, _DEFINITIONS):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (one for one in node.body if isinstance(one, _DEFINITIONS))


def names(tree: ast.AST) -> Iterator[str]:
    """Every name that code uses, including names in text, as for `getattr`."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield name.rpartition(".")[2]
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text


def is_registered(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator registers it with a caller: a command of click, a validator."""
    return any(isinstance(one, ast.Call) and not isinstance(node, ast.ClassDef) for one in node.decorator_list)


def distributions(root: Path) -> list[Path]:
    """The packages of the server, the conformance suite and the demo."""
    return [root / "microsub", *sorted(root.glob("microsub_*/"))]


def modules(root: Path) -> dict[Path, ast.Module]:
    """All modules of the distributions, parsed."""
    return {
        path: ast.parse(path.read_text("utf-8")) for one in distributions(root) for path in sorted(one.rglob("*.py"))
    }


def unused(trees: Mapping[Path, ast.Module], root: Path = ROOT) -> list[str]:
    """The place of each unused name of these `modules`, in the repository at `root`."""
    used = Counter(name for tree in trees.values() for name in names(tree))
    for template in (path for one in distributions(root) for path in one.rglob("*.html")):
        used.update(re.findall(r"\w+", template.read_text()))
    found = []
    for path, tree in trees.items():
        place = str(path.relative_to(root))
        if any(place.startswith(part) for part in OFFERED):
            continue
        for node in definitions(tree):
            if not (
                node.name.startswith("_")
                or used[node.name]
                or is_registered(node)
                or _CALLED_BY_FRAMEWORKS.fullmatch(node.name)
            ):
                found.append(f"{place}:{node.lineno}: {node.name}")
    return found


if __name__ == "__main__":
    listed = unused(modules(ROOT))
    print("\n".join(listed))
    sys.exit(bool(listed))
