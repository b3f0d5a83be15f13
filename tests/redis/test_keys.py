"""The key module: names, slots, lifetimes."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

import microsub
from microsub.admin.check.keynames import texts
from microsub.redis import keys
from microsub.redis.scripts import NamedScript, load, script_files
from tests.support.invariants import assert_no_stray_keys, named_keys

ROOT = Path(microsub.__file__).parent
TEXTS = texts()
ARGUMENTS = {
    "name": "ann",
    "uid": "home",
    "feed_id": "7",
    "host_name": "blog.example",
    "item_id": "9",
    "digest": "0" * 64,
}


def example(key: str, **changes: str) -> str:
    values = re.findall(r"<(\w+)>", TEXTS[key][0])
    return getattr(keys, key)(*({**ARGUMENTS, **changes}.get(value, "x") for value in values))


def test_no_two_keys_are_the_same():
    """Each key function returns a different key."""
    names = [example(name) for name in TEXTS]
    assert len(set(names)) == len(names)


def test_every_key_is_described():
    """The text below it says what it is, how long it lives, and which module writes it."""
    for _, text in TEXTS.values():
        assert re.match(r"(String|Hash|Set|Sorted set|Stream|List)\b", text), text
        assert re.search(r"permanent|lifetime", text, re.IGNORECASE), text
        named = re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)`", text)
        places = [ROOT / name.replace(".", "/") for name in named]
        assert any(one.with_suffix(".py").exists() or (one / "__init__.py").exists() for one in places), text


@pytest.mark.parametrize(("owner", "parameter"), [("user:{", "name"), ("feed:{", "feed_id"), ("host:{", "host_name")])
def test_an_owners_keys_share_a_slot(owner, parameter):
    """One script can use all keys of a user, a feed or a host; keys of another owner are in another slot."""
    owned = [key for key in TEXTS if example(key).startswith(owner)]
    assert len(owned) > 1
    assert len({key_slot(example(key).encode()) for key in owned}) == 1
    assert key_slot(example(owned[0]).encode()) != key_slot(example(owned[0], **{parameter: "other"}).encode())


def test_a_users_events_lie_beside_their_channels():
    """One script writes both."""
    assert key_slot(keys.live_events("ann").encode()) == key_slot(keys.channels("ann").encode())


def test_the_hosts_share_a_slot():
    """The due set and the leases change together."""
    assert key_slot(keys.hosts_due().encode()) == key_slot(keys.hosts_leases().encode())


def test_only_keys_py_builds_keys():
    """Only keys.py contains literals that begin like a key, no other module and no script."""
    prefix = re.compile(
        r"""["'](item:|feed:\{|feeds:|host:\{|hosts:|\{hosts\}|user:\{(?![a-z]+\})|twins:|ids:|meta:|identity:)"""
    )
    root = Path(microsub.__file__).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in [*root.rglob("*.py"), *root.rglob("*.lua")]
        if path.name != "keys.py"
        for line in path.read_text().splitlines()
        if prefix.search(line)
    ]
    assert found == []


def test_scripts_open_with_their_contract():
    """Each script says what must be atomic, and lists KEYS, ARGV and reply."""
    for path in script_files().values():
        head = path.read_text().split("\n\n", 1)[0] + path.read_text()[:2500]
        assert path.read_text().startswith("-- "), path.name
        for part in ("Atomic", "KEYS", "ARGV", "reply"):
            assert part in head, f"{path.name} says nothing of {part}"


def test_scripts_are_called_by_the_names_in_their_heads():
    """Every call in the product gives the names that the script's head has, each once."""
    called = set()
    for path in Path(microsub.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named = {
            target.id: value.args[0].value
            for node in tree.body
            if isinstance(node, ast.Assign) and len(node.targets) == 1
            for target, value in _pairs(node)
            if _is_load(value)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (_is_load(node.func) or getattr(node.func, "id", "") in named):
                name = node.func.args[0].value if _is_load(node.func) else named[node.func.id]
                called.add(name)
                script, given = load(name), {one.arg for one in node.keywords}
                names = [one.name for one in (*script.keys, *script.args)]
                assert len(names) == len(set(names)), name
                assert given - {None} <= set(names), f"{path.name}: {name}"
                required = {one.name for one in (*script.keys, *script.args) if one.values and not one.is_optional}
                required -= {one.name for one in (*script.keys, *script.args) if node.args and one.key}
                assert None in given or required <= given, f"{path.name}: {name} needs {required - given}"
    assert called == script_files().keys()


def _is_load(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load" and len(node.args) == 1


def _pairs(node: ast.Assign) -> list[tuple[Any, Any]]:
    """Targets and values of an assignment, of several in one line too."""
    target, value = node.targets[0], node.value
    several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    return list(zip(target.elts, value.elts, strict=True)) if several else [(target, value)]


def test_a_wrong_call_of_a_script_is_an_error():
    """Names that are missing or unknown, a wrong number of values, and heads whose numbers aren't consecutive."""
    script = NamedScript(
        "x", "-- KEYS  1 user  2 token?\n-- ARGV  1, 2 patterns: a, b  3 now?\n--       4.. ids\nreturn 1\n"
    )
    assert script(user="u", patterns=("a", "b"), ids=["1"])[1:] == (["u"], ["a", "b", "", "1"])
    assert script(user="u", token="t", patterns=("a", "b"), now=5)[1:] == (["u", "t"], ["a", "b", 5])
    assert script("ann", patterns=("a", "b"))[1] == [keys.user("ann")]
    for wrong in ({}, {"user": "u", "patterns": ("a",)}, {"user": "u", "patterns": ("a", "b"), "other": 1}):
        with pytest.raises(TypeError, match=r"x\.lua"):
            script(**wrong)
    with pytest.raises(ValueError, match="expected 2"):
        NamedScript("x", "-- KEYS  1 user  3 token\n")


def test_patterns_tell_keys_apart():
    """The check in the fixtures finds the right function for each key."""
    for name in TEXTS:
        matches = [found for found, pattern, _ in named_keys() if pattern.match(example(name))]
        assert name in matches
        assert matches[0] == name, f"{example(name)} passes for {matches[0]}"


class TestStrayKeys:
    """The check itself."""

    async def test_named_and_licensed_keys_pass(self, redis):
        """Permanent keys, and other keys with a time to live."""
        await redis.command("SET", keys.schema(), 1)
        await redis.command("SET", keys.lease("config"), 1, "EX", 9)
        await redis.command("HSET", keys.host("h:8080"), "free", 1)
        await redis.command("EXPIRE", keys.host("h:8080"), 9)
        await assert_no_stray_keys(redis)

    async def test_a_key_without_a_name_fails(self, redis):
        """A key that only begins like a known one fails, too."""
        await redis.command("SET", keys.schema() + ":backup", 1)
        with pytest.raises(AssertionError, match="not named"):
            await assert_no_stray_keys(redis)
        await redis.command("DEL", keys.schema() + ":backup")

    async def test_a_key_without_lifetime_fails(self, redis):
        """Only keys that keys.py calls permanent may be without one."""
        await redis.command("ZADD", keys.duplicates("x"), 1, 1)
        with pytest.raises(AssertionError, match=r"keys\.duplicates says nothing of staying"):
            await assert_no_stray_keys(redis)
        await redis.command("DEL", keys.duplicates("x"))


def test_every_key_of_a_user_is_deleted_with_the_user() -> None:
    """Each belongs to a channel, an output feed, the user or one of their lists; the others expire."""
    mine = {example(name) for name in TEXTS if example(name).startswith(("user:{ann}", "events:{ann}"))}
    listed = {key("ann") for key in keys.USER_KEYS}
    listed |= {key("ann", "home") for key in keys.CHANNEL_KEYS} | {key("ann", "x") for key in keys.OUTPUT_KEYS}
    listed |= {example(name) for name in ("channels", "removed_channels", "token", "session", "grant", "medium")}
    ending = ("answered", "code", "confirmed", "deleted_post", "follows", "foreign_refused", "posted_lately", "undo")
    assert mine == listed | {example(name) for name in ending}
