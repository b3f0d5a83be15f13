"""The master of a command, and the commands that may be repeated."""

from __future__ import annotations

import re

import pytest
import redis as redis_py

from microsub.redis import keys
from microsub.redis.cluster import Layout, key_of, layout_of, slot_of, split_url
from microsub.redis.protocol import READS, Command, Script
from microsub.redis.scripts import load, script_files
from tests.support.cluster import Cluster

SCRIPTS = sorted(script_files())


def test_slots_are_as_redis_counts_them(redis_cluster: Cluster) -> None:
    """Hash tags (empty, unclosed, several), bytes and characters beyond ASCII."""
    names = ["", "a", "{a}b", "b{a}", "{}a", "a{}{b}", "{a", "}a{", "{a}{b}", "{{a}}", "ä", "{ä}x", "123456789"]
    names += [keys.user("ann"), keys.posts("ann", "home"), keys.feed("7"), keys.item("12")]
    with redis_cluster.nodes[0].client() as client:
        for name in names:
            assert slot_of(name) == slot_of(name.encode()) == client.execute_command("CLUSTER KEYSLOT", name), name


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("GET", "k"), "k"),
        (("HMGET", b"k", "f"), b"k"),
        (("PING",), None),
        (("SCRIPT", "LOAD", "return 1"), None),
        (("EVALSHA", "sha", 2, "k", "l", "arg"), "k"),
        (("EVAL", "return 1", 0), None),
        (("XGROUP", "CREATE", "k", "group", "0"), "k"),
        (("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "k", ">"), "k"),
        (("XAUTOCLAIM", "k", "g", "c", 0, "0"), "k"),
    ],
)
def test_the_key_that_decides(command: Command, key: object) -> None:
    """It is the first argument of nearly every command."""
    assert key_of(command) == key


def test_redis_agrees_which_commands_only_read(redis_cluster: Cluster) -> None:
    """No command that may be repeated is a write command for Redis."""
    with redis_cluster.nodes[0].client() as client:
        known = client.execute_command("COMMAND", "INFO", *sorted(READS))
    flags = {name.upper(): facts["flags"] for name, facts in known.items()}
    assert len(flags) == len(READS)
    assert [name for name, of_it in flags.items() if "write" in of_it] == []


def test_a_script_declared_read_only_writes_nothing() -> None:
    """All other scripts count as writing, including those without such a sentence."""
    for name in SCRIPTS:
        says_so = "Writes nothing" in re.sub(r"\n-- ", " ", load(name).text)
        assert load(name).writes is not says_so, name
    assert Script("any", "redis.call(ARGV[1], KEYS[1])").writes


def test_replies_to_cluster_slots_are_read() -> None:
    """An empty address means the node that was asked, `?` is no node; Redis 7 adds more about each node."""
    reply = [
        [0, 99, [b"10.0.0.1", 7000, b"id", []], [b"10.0.0.2", 7001, b"id", [b"hostname", b"x"]]],
        [100, 199, [b"", 7002, b"id"]],
        [200, 299, [None, 7003, b"id"], [b"?", 7004, b"id"]],
        [300, 16383, [b"?", 7005, b"id"]],
    ]
    assert layout_of(reply, ("asked", 1)) == Layout(
        ((0, 99, ("10.0.0.1", 7000)), (100, 199, ("asked", 7002)), (200, 299, ("asked", 7003))),
        frozenset({("10.0.0.2", 7001)}),
    )


@pytest.mark.parametrize(
    ("url", "one", "nodes"),
    [
        ("redis+cluster://h", "redis://h:6379", [("h", 6379)]),
        ("redis+cluster://h:1,i,[::1]:2/0", "redis://h:1", [("h", 1), ("i", 6379), ("::1", 2)]),
        ("rediss+cluster://u:a,b@[::1]:1,h?x=y", "rediss://u:a,b@[::1]:1?x=y", [("::1", 1), ("h", 6379)]),
    ],
)
def test_the_url_of_a_cluster(url: str, one: str, nodes: object) -> None:
    """User, password and options apply to every node; only the first database exists."""
    assert split_url(url) == (one, nodes)
    redis_py.ConnectionPool.from_url(one)
