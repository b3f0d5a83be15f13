"""Secrets are looked up by digest or compared in constant time: the time of an answer reveals nothing about them.

Measured times would be unreliable on a busy machine, so this reads the code: in the modules for identity, no two values
of which one is a secret by its name are compared with `==`, `!=`, `in` or a method that stops at the first difference.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import microsub

ROOT = Path(microsub.__file__).parent
WHERE = ("identity", "accounts", "web", "api")
SECRET = re.compile(
    r"(?i)(secret|token|digest|hash|mac|challenge|verifier|password|passwd|code|state|cookie|nonce|bearer)s?$"
)
# Names with the same endings that hold nothing secret.
OPEN = re.compile(r"(?i)(status_?code|error_?code|token_type|content_?hash|client_|grant_type|_endpoint$)")
STOPS = frozenset({"startswith", "endswith", "removeprefix", "removesuffix"})
KNOWN: dict[str, str] = {}
"""`file:function` of comparisons that were checked and are harmless, with the reason."""


def files() -> list[Path]:
    found = {folder: sorted((ROOT / folder).rglob("*.py")) for folder in WHERE}
    assert all(found.values()), "a folder has moved"
    return [path for folder in found.values() for path in folder]


def name_of(node: ast.expr) -> str:
    """The last name of an expression: for `a.b.token` and `form["token"]`, `token`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "text"} and node.args:
            return name_of(node.args[0])
        return name_of(node.func)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return name_of(node.value) if isinstance(node, ast.Await) else ""


def is_secret(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return False
    name = name_of(node)
    return bool(SECRET.search(name)) and not OPEN.search(name)


def compared(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Function, line and text of each comparison of a secret with something other than a literal."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                exact = all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
                written = any(
                    isinstance(side, ast.Constant | ast.Dict | ast.Set | ast.List | ast.Tuple) for side in sides
                )
                if exact and not written and any(is_secret(side) for side in sides):
                    yield function.name, node.lineno, ast.unparse(node)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STOPS:
                given = [side for side in node.args if is_secret(side)]
                if given and is_secret(node.func.value):
                    yield function.name, node.lineno, ast.unparse(node)


def test_no_secret_is_compared_letter_by_letter() -> None:
    """Every comparison of a secret uses hmac.compare_digest, or a look-up by digest."""
    found = {
        f"{path.relative_to(ROOT)}:{function}": f"line {line}: {text}"
        for path in files()
        for function, line, text in compared(ast.parse(path.read_text()))
    }
    assert {place: text for place, text in found.items() if place not in KNOWN} == {}
    assert set(KNOWN) <= set(found), "what is known must still be there"


def test_the_check_sees_what_it_should() -> None:
    """The rule finds the usual mistakes, and accepts the correct ways."""
    wrong = """
def f(form, record, token, store, given_hash):
    a = form.get("token") == record.secret
    b = record.token != token
    c = store.digest == digest_of(token)
    d = given_hash.startswith(record.hash)
    e = form["code_verifier"] == other
"""
    right = """
def f(form, record, token, response):
    a = hmac.compare_digest(token, record.secret)
    b = form.get("token") == ""
    c = response.status_code == expected
    d = record.token is None
    e = form["grant_type"] == other
"""
    assert [line for _, line, _ in compared(ast.parse(wrong))] == [3, 4, 5, 6, 7]
    assert list(compared(ast.parse(right))) == []


def test_secrets_are_made_by_the_systems_randomness() -> None:
    """No module for identity uses `random`, and none makes a secret from the time or from a uuid."""
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"random", "uuid"} & set(names), path
