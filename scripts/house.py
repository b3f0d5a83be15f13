"""House rules that can be counted: size, names, words, callers, readers of keys, stores, odd phrases.

`python scripts/house.py` prints the modules and lines of each package with its budget, then the violations of each
rule. It exits with 1 if a number exceeds its limit in `[tool.house]` of pyproject.toml. A budget is `[modules, lines]`
of a package, Python and Lua together; `microsub` means the modules outside of packages. The distributions beside the
server count as packages. All other numbers count the violations that are left, and must only go down. With `--list` all
violations are printed.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import callers, phrases  # noqa: E402 – found beside this file, however it is started

BANNED = re.compile(
    r"(?<![a-z])(spoilt|mend(s|ed|ing)?|whoever|anew|(told|tells?|telling)\s+of|that\s+(is|are)\s+(?-i:none)(?!\s+of)"
    r"|borne|bore|bear(s|ing|able)?|a\s+hand|(let|lets|letting)\s+go\s+of)(?![a-z])"
    r"|(?<![a-z\"'`])(untold|twins?(?!:)|fan_out(?!_limit))(?![a-z])",  # in quotes they are names in Redis
    re.IGNORECASE,
)
WORDS_LISTED = ("docs/reference/glossary.md", "scripts/house.py", "tests/docs/test_house.py")  # banned words themselves
_OTHER_TEXTS = (
    *("microsub/**/*.html", "microsub/**/*.json", "microsub/**/*.toml", "docs/**/*.md", "README.md", "CHANGELOG.md"),
    *("tests/**/*.py", "benchmarks/**/*.py", "benchmarks/**/*.lua", "scripts/*.py", "microsub_*/*.md"),
)

KEYS = "keys.py"
WRITING = re.compile(
    "APPEND|DEL|P?EXPIRE(AT)?|H(DEL|INCRBY|SET|SETNX)|INCR(BY)?|[LR](PUSH|TRIM)|PERSIST|P?SETEX|S(ADD|ET|REM)|UNLINK"
    "|X(ADD|DEL|TRIM)|Z(ADD|INCRBY|REM|REMRANGEBYRANK|REMRANGEBYSCORE)"
)
"""Commands that don't read a key."""

SENDERS = ("redis", "work")
"""Packages in which every module may send commands to Redis; in others only stores may."""
_VERB = re.compile("[A-Z]{3,}")


class Tree:
    """A repository, read once."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.product = root / "microsub"
        self.modules = callers.modules(root)
        self.sources = {path: path.read_text("utf-8") for path in self.modules}
        self.lua = {path: path.read_text("utf-8") for path in sorted(self.product.rglob("*.lua"))}

    def place(self, path: Path, line: int = 0) -> str:
        """The path, and line if given, for people."""
        return str(path.relative_to(self.root)) + (f":{line}" if line else "")

    def feature(self, path: Path) -> str:
        """The package of a file; `microsub` for modules outside of packages, and the name of another distribution."""
        top, *parts = path.relative_to(self.root).parts
        return parts[0] if top == self.product.name and len(parts) > 1 else top

    def texts(self) -> Iterator[tuple[Path, str]]:
        """All texts that are searched for banned words."""
        yield from self.sources.items()
        yield from self.lua.items()
        for pattern in _OTHER_TEXTS:
            yield from ((path, path.read_text("utf-8")) for path in sorted(self.root.glob(pattern)))


def sizes(tree: Tree) -> dict[str, tuple[int, int]]:
    """Package → number of modules, and lines of Python and Lua."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path, text in [*tree.sources.items(), *tree.lua.items()]:
        modules, lines = found[tree.feature(path)]
        found[tree.feature(path)] = (modules + (path.suffix == ".py"), lines + len(text.splitlines()))
    return dict(found)


def repeated_classes(tree: Tree) -> list[str]:
    """Names of public classes that two modules define."""
    where: dict[str, list[str]] = defaultdict(list)
    for path, module in tree.modules.items():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(tree.place(path, node.lineno))
    return [f"class {name}: {', '.join(places)}" for name, places in sorted(where.items()) if len(places) > 1]


def banned_words(tree: Tree) -> list[str]:
    """Every occurrence of a banned word."""
    found = []
    for path, text in tree.texts():
        if tree.place(path) not in WORDS_LISTED:
            for match in BANNED.finditer(text):
                word = " ".join(match[0].split())
                found.append(f"{tree.place(path, text.count(chr(10), 0, match.start()) + 1)}: {word}")
    return found


def unread_keys(tree: Tree) -> list[str]:
    """Kinds of Redis keys that product code only uses in writing commands, or not at all."""
    of_keys = [path for path in tree.sources if path.name == KEYS]
    kinds = {
        node.targets[0].id: tree.place(path, node.lineno)
        for path in of_keys
        for node in tree.modules[path].body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value.func, ast.Name) and node.value.func.id.startswith("key")
    }
    # Scripts make the keys that their heads name (redis/scripts.py).
    heads = [one for text in tree.lua.values() for one in re.findall(r"^-- KEYS  .*(?:\n--  .*)*", text, re.MULTILINE)]
    read = {name for head in heads for name in re.findall(r"\d (\w+)", head)}
    read |= {name for path, module in tree.modules.items() if path not in of_keys for name in _keys_read(module)}
    return [f"{place}: {name}" for name, place in kinds.items() if name not in read]


def _keys_read(node: ast.AST, writing: bool = False) -> Iterator[str]:
    """Kinds of keys used outside of writing commands: calls (`command("SET", …)`) or tuples (`("SET", …)`)."""
    parts = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple | ast.List) else []
    if parts and isinstance(parts[0], ast.Constant) and isinstance(parts[0].value, str) and parts[0].value.isupper():
        writing = bool(WRITING.fullmatch(parts[0].value))
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if f"{module}.py" == KEYS and not writing:
            yield name
        case ast.ImportFrom(module=str(module), names=imported) if f"{module.rpartition('.')[2]}.py" == KEYS:
            yield from (alias.name for alias in imported)
    for child in ast.iter_child_nodes(node):
        yield from _keys_read(child, writing)


def sends_commands(module: ast.Module) -> bool:
    """Whether a module sends commands to Redis, or names them in tuples that others send."""
    nodes = list(ast.walk(module))
    decorators = {id(one) for node in nodes for one in getattr(node, "decorator_list", ())}
    knows_keys = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "microsub.redis"
        and "keys" in {one.name for one in node.names}
        for node in module.body
    )
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="command" | "pipeline" | "script" | "scripts")):
                # Click's commands are called so, too.
                if id(node) not in decorators and not (isinstance(value, ast.Name) and value.id == "click"):
                    return True
            case ast.Tuple(elts=[ast.Constant(value=str(verb)), _, *_]) if knows_keys and _VERB.fullmatch(verb):
                return True
    return False


def without_store(tree: Tree, stores: Collection[str]) -> list[str]:
    """Modules of the product that send commands to Redis and are no stores, and stores that send none."""
    sending = {
        path.relative_to(tree.product).with_suffix("").as_posix()
        for path, module in tree.modules.items()
        if path.is_relative_to(tree.product) and tree.feature(path) not in SENDERS and sends_commands(module)
    }
    return [f"{name}: sends commands to Redis and is no store" for name in sorted(sending.difference(stores))] + [
        f"{name}: is no store any more" for name in sorted(set(stores).difference(sending))
    ]


def over_budget(found: Mapping[str, tuple[int, int]], budget: Mapping[str, list[int]]) -> list[str]:
    """Packages that exceed their budget or have none, and budgets of packages that don't exist."""
    over = [
        f"{name}: {modules} modules, {lines} lines; budget {budget.get(name, 'missing')}"
        for name, (modules, lines) in found.items()
        if name not in budget or modules > budget[name][0] or lines > budget[name][1]
    ]
    return over + [f"{name}: has a budget and does not exist" for name in budget if name not in found]


def main(root: Path = ROOT) -> int:
    """Print the report; the exit code."""
    house = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["house"]
    tree = Tree(root)
    found = sizes(tree)
    for name, (modules, lines) in sorted(found.items()):
        print(f"{name:16} {modules:4} modules, {lines:6} lines; budget {house['budget'].get(name, 'missing')}")
    print(
        f"{'all':16} {sum(one for one, _ in found.values()):4} modules, {sum(two for _, two in found.values()):6} lines"
    )
    failed = False
    for rule, cases in {
        "over_budget": over_budget(found, house["budget"]),
        "repeated_classes": repeated_classes(tree),
        "banned_words": banned_words(tree),
        "without_caller": callers.unused(tree.modules, tree.root),
        "unread_keys": unread_keys(tree),
        "without_store": without_store(tree, house.get("stores", ())),
        "odd_phrases": phrases.too_odd(phrases.packages(root), house["most_odd_phrases"]),
    }.items():
        allowed = house.get(rule, 0)
        print(f"{rule}: {len(cases)}, allowed {allowed}" + (": lower the number" if len(cases) < allowed else ""))
        if len(cases) > allowed or "--list" in sys.argv:
            print("\n".join(f"  {case}" for case in cases))
        failed |= len(cases) > allowed
    return int(failed)


if __name__ == "__main__":
    gc.disable()  # the trees of all modules stay
    sys.exit(main())
