"""The figures by which the structure of the code is judged: `python scripts/figures.py` prints them, one on a line.

They are counted, not limited; what may not get worse is in the contracts and limits of pyproject.toml.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.house import SENDERS, sends_commands  # noqa: E402 – found beside this file, however it is started

FEATURES = {
    *("accounts", "feeds", "posts", "timelines"),
    *("polling", "delivery", "identity", "backend_file", "discovery", "websub", "hub", "outputs", "micropub"),
    *("webmention", "webpush", "search", "transfer", "notices", "admin", "post_store", "api", "reader"),
}
"""The packages of levels 3 to 5, which should know each other by their faces alone."""


def modules() -> Mapping[Path, ast.Module]:
    """Every module of the product."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / "microsub").rglob("*.py"))}


def imports(tree: ast.Module) -> Iterator[str]:
    """The modules and names that a module imports from the product, as dotted names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("microsub"):
            yield node.module or ""


def package(path: Path) -> str:
    """The package of a module, or an empty string."""
    parts = path.relative_to(ROOT / "microsub").parts
    return parts[0] if len(parts) > 1 else ""


def past_a_face(trees: Mapping[Path, ast.Module]) -> tuple[int, int]:
    """Imports of one feature from another: those of inner modules, and all."""
    found = [
        name.count(".") > 1
        for path, tree in trees.items()
        for name in imports(tree)
        if package(path) in FEATURES and name.count(".") and name.split(".")[1] in FEATURES - {package(path)}
    ]
    return sum(found), len(found)


def in_functions(trees: Mapping[Path, ast.Module]) -> tuple[int, int]:
    """Imports inside functions: outside of `cli`, and all."""
    found = [
        package(path) != "cli"
        for path, tree in trees.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in function.body
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
        if not any(
            isinstance(nested, ast.FunctionDef | ast.AsyncFunctionDef) and inner in ast.walk(nested)
            for nested in ast.walk(node)
        )
    ]
    return sum(found), len(found)


def dataclasses(trees: Mapping[Path, ast.Module]) -> int:
    """Classes that `dataclass` makes."""
    return sum(
        "dataclass" in ast.unparse(decorator)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
    )


def lines(folder: str, *suffixes: str) -> int:
    """Lines of all files of a folder with one of these endings."""
    files = (path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def main() -> int:
    """Print the figures."""
    trees = modules()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    sending = [path for path, tree in trees.items() if package(path) not in SENDERS and sends_commands(tree)]
    (past, among), (outside, late) = past_a_face(trees), in_functions(trees)
    for name, value in {
        "contracts of imports": len(contracts),
        "imports that they exempt": sum(len(contract.get("ignore_imports", ())) for contract in contracts),
        "imports past a face": f"{past} of {among} between features",
        "imports inside functions": f"{late}, of these outside of cli {outside}",
        "modules that send Redis commands, outside of redis and work (all of them stores)": len(sending),
        "dataclasses": dataclasses(trees),
        "lines of the product, with Lua": lines("microsub", ".py", ".lua"),
        "lines of tests": lines("tests", ".py"),
    }.items():
        sys.stdout.write(f"{name}: {value}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
