"""No two users are the same person, whichever way a user is added or changed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from microsub.base.errors import InvalidRequest
from microsub.configuration.facts import Change, ChangeKind
from microsub.redis.protocol import Redis
from tests.support.configured import NOW, Configured

SOURCES = Path(__file__).parents[2] / "microsub"
A, B = "https://a.example/", "https://b.example/"


async def test_a_single_change_is_looked_at(redis: Redis, tmp_path: Path) -> None:
    """Adding, changing and restoring are refused with both names, and nothing is written."""
    made = Configured(redis, tmp_path / "backend.json")
    await made.applier.apply(Change(ChangeKind.USER_ADDED, "ann", value=A), NOW)
    await made.applier.apply(Change(ChangeKind.USER_ADDED, "bob", value=B), NOW)
    await made.applier.apply(Change(ChangeKind.USER_REMOVED, "bob"), NOW)
    with pytest.raises(InvalidRequest, match=r"already belongs to the user 'bob'.*user restore bob"):
        await made.applier.apply(Change(ChangeKind.USER_ADDED, "new", value="http://b.example"), NOW)
    await made.accounts.add_user("new", B, NOW)
    with pytest.raises(InvalidRequest, match="already belongs to the user 'new'"):
        await made.applier.apply(Change(ChangeKind.USER_ADDED, "bob", value=B, restored=True), NOW)
    with pytest.raises(InvalidRequest, match="the user 'ann'"):
        await made.applier.apply(
            Change(ChangeKind.SITE, "new", value="http://www.a.example:80/".replace("www.", "")), NOW
        )
    assert [(user.name, user.me, user.disabled) for user in await made.accounts.users()] == [
        ("ann", A, None), ("bob", B, NOW), ("new", B, None)
    ]  # fmt: skip


async def test_invalid_addresses_are_refused(redis: Redis, tmp_path: Path) -> None:
    """This holds for new and existing users; a restored user has the old address."""
    made = Configured(redis, tmp_path / "backend.json")
    await made.accounts.add_user("old", "https://old.example/#me", NOW)
    for change in (
        Change(ChangeKind.USER_ADDED, "ann", value="https://a:secret@a.example/"),
        Change(ChangeKind.SITE, "old", value="https://a:secret@a.example/"),
    ):
        with pytest.raises(InvalidRequest, match="with a user name or password") as refused:
            await made.applier.apply(change, NOW)
        assert "secret" not in str(refused.value)
    await made.applier.apply(Change(ChangeKind.USER_REMOVED, "old"), NOW)
    await made.applier.apply(Change(ChangeKind.USER_ADDED, "old", value="https://old.example/#me", restored=True), NOW)
    assert [(user.name, user.me, user.disabled) for user in await made.accounts.users()] == [
        ("old", "https://old.example/#me", None)
    ]


def test_all_changes_of_addresses_are_checked() -> None:
    """No other code gives users addresses, or restores them."""
    callers = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                method, of = node.func.attr, ast.unparse(node.func.value).lower()
                if method in {"add_user", "set_me", "restore_user", "register"} and "accounts" in of:
                    callers.add(str(path.relative_to(SOURCES)))
    # Registration comes after admission.
    assert callers == {"backend_file/apply.py", "identity/admission.py"}
