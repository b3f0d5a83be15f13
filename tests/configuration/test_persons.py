"""No two users are one person, by whatever way somebody becomes or changes one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from microsub.configuration.changes import Change, UserAdded, UserChanged, UserRemoved
from microsub.configuration.persons import clashes
from microsub.errors import InvalidRequest
from microsub.identity.store.accounts import User
from microsub.redis.protocol import Redis
from tests.support.configured import NOW, Configured

SOURCES = Path(__file__).parents[2] / "microsub"
A, B = "https://a.example/", "https://b.example/"
ANN, BOB, GONE = User("ann", A), User("bob", B), User("gone", "https://gone.example/", disabled=5.0)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([UserAdded("new", "http://A.example")], [("new", "ann")]),
        ([UserChanged("bob", A)], [("bob", "ann")]),
        ([UserAdded("new", "")], []),
        ([UserAdded("ann", A)], []),
        ([UserChanged("ann", B), UserChanged("bob", A)], []),
        ([UserAdded("anna", A), UserRemoved("ann")], []),
        ([UserAdded("back", "https://gone.example")], []),
        ([UserAdded("gone", A, restored=True)], [("gone", "ann")]),
    ],
)
def test_who_would_be_somebody_else(changes: list[Change], told: list[tuple[str, str]]) -> None:
    """All changes together count: two may swap addresses, and one person may get another name."""
    assert [(one.user, one.other) for one in clashes([ANN, BOB, GONE], changes)] == told


def test_a_disabled_user_counts_where_one_is_asked_for() -> None:
    """The sentence says how they come back."""
    (told,) = clashes([ANN, GONE], [UserAdded("new", "https://gone.example")], disabled_too=True)
    assert "microsub user restore gone" in str(told)


async def test_a_single_change_is_looked_at(redis: Redis, tmp_path: Path) -> None:
    """Adding, changing and restoring are refused with both names, and nothing is written."""
    made = Configured(redis, tmp_path / "backend.json")
    await made.applier.apply(UserAdded("ann", A), NOW)
    await made.applier.apply(UserAdded("bob", B), NOW)
    await made.applier.apply(UserRemoved("bob"), NOW)
    with pytest.raises(InvalidRequest, match=r"'bob' already.*user restore bob"):
        await made.applier.apply(UserAdded("new", "http://b.example"), NOW)
    await made.accounts.add_user("new", B, NOW)
    with pytest.raises(InvalidRequest, match="'new' already"):
        await made.applier.apply(UserAdded("bob", B, restored=True), NOW)
    with pytest.raises(InvalidRequest, match="'ann' already"):
        await made.applier.apply(UserChanged("new", "http://www.a.example:80/".replace("www.", "")), NOW)
    assert [(user.name, user.me, user.disabled) for user in await made.accounts.users()] == [
        ("ann", A, None), ("bob", B, NOW), ("new", B, None)
    ]  # fmt: skip


async def test_nobody_gets_an_address_that_is_none(redis: Redis, tmp_path: Path) -> None:
    """Neither a new user nor one who is here; who comes back has what they had."""
    made = Configured(redis, tmp_path / "backend.json")
    await made.accounts.add_user("old", "https://old.example/#me", NOW)
    for change in (UserAdded("ann", "https://a:secret@a.example/"), UserChanged("old", "https://a:secret@a.example/")):
        with pytest.raises(InvalidRequest, match="with a user name or password") as refused:
            await made.applier.apply(change, NOW)
        assert "secret" not in str(refused.value)
    await made.applier.apply(UserRemoved("old"), NOW)
    await made.applier.apply(UserAdded("old", "https://old.example/#me", restored=True), NOW)
    assert [(user.name, user.me, user.disabled) for user in await made.accounts.users()] == [
        ("old", "https://old.example/#me", None)
    ]


def test_all_ways_lead_through_there() -> None:
    """Nothing else gives users addresses, or brings them back."""
    callers = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                method, of = node.func.attr, ast.unparse(node.func.value).lower()
                if method in {"add_user", "set_me", "restore_user", "register"} and "accounts" in of:
                    callers.add(str(path.relative_to(SOURCES)))
    # Registration comes after admission.
    assert callers == {"configuration/apply.py", "identity/sign_in/registration.py"}
