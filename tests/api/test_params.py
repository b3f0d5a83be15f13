"""Parameters in all forms that clients send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise

import pytest

from microsub.base.errors import InvalidRequest
from microsub.web.params import (
    FEW_PAIRS,
    MAX_PAIRS,
    Params,
    RequestBody,
    body_pairs,
    collect,
    in_turn,
    json_object,
    urlencoded,
    wrong,
)


def from_query(raw: str) -> Params:
    return collect(urlencoded(raw.encode()))


@pytest.mark.parametrize(
    "raw",
    [
        "entry=a&entry=b",
        "entry[]=a&entry[]=b",
        "entry%5B%5D=a&entry%5B%5D=b",
        "entry[0]=a&entry[1]=b",
        "entry[1]=b&entry[0]=a",
        "entry[10]=b&entry[9]=a",
        "entry=a&entry[]=b",
        "entry=a&entry=b&entry=a&entry=",
    ],
)
def test_all_array_forms_mean_the_same(raw: str) -> None:
    """Six ways to write an array give one list, each value once."""
    assert from_query(raw).many("entry") == ["a", "b"]


@pytest.mark.parametrize("raw", [b'{"entry":["a","b"]}', b'{"entry[]":["a","b"]}', b'{"entry":["a",null,"","b"]}'])
def test_json_lists_are_arrays(raw: bytes) -> None:
    """A JSON list is an array; null and empty members are absent."""
    assert collect(json_object(raw)).many("entry") == ["a", "b"]


def test_json_scalars_become_text() -> None:
    """Numbers and booleans in JSON count as their text."""
    params = collect(json_object(b'{"entry":17,"is_read":false,"limit":5,"name":"x","gone":null}'))
    assert params.many("entry") == ["17"]
    assert params.text("is_read") == "false"
    assert params.text("limit") == "5"
    assert params.text("gone") is None


KINDS = {b"[]": "list", b'"x"': "string", b"null": "null", b"7": "number", b"true": "boolean"}


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        *((raw, f"found a JSON {kind}, expected an object") for raw, kind in KINDS.items()),
        *((raw, "'a' can't be used") for raw in (b'{"a":{"b":1}}', b'{"a":[["b"]]}', b'{"a":[{"b":1}]}')),
        *((raw, "body is not JSON") for raw in (b"{", b"\xff", b'{"a":"\xff"}', b"action=x")),
    ],
)
def test_a_json_body_is_an_object_of_texts_and_lists(raw: bytes, problem: str) -> None:
    """All else is an error of the request, with the type found or the name of the parameter."""
    with pytest.raises(InvalidRequest, match=problem):
        collect(json_object(raw))


def test_an_empty_string_is_absent() -> None:
    """`after=&before=` asks for the first page."""
    params = from_query("after=&before&limit=&=x&&")
    assert params.text("after") is None
    assert params.text("before") is None
    assert params.text("limit") is None


def test_percent_plus_and_raw_bytes_are_decoded() -> None:
    """Names and values may be encoded, or be raw UTF-8; broken bytes become replacement characters."""
    assert from_query("n%61me=a+b%20c%2B").text("name") == "a b c+"
    assert from_query("name=für").text("name") == "für"
    assert from_query("name=f%C3%BCr").text("name") == "für"
    assert from_query("name=%FF").text("name") == "\ufffd"
    assert from_query("name=a=b").text("name") == "a=b"
    assert from_query("name=100%").text("name") == "100%"


def test_a_scalar_given_twice_must_agree() -> None:
    """The same value in query and body is one value; two different ones are an error that shows both."""
    assert collect([("action", "x")], [("action", "x")]).text("action") == "x"
    with pytest.raises(InvalidRequest, match="'channel' has more than one value: found 'a' and 'b'"):
        collect([("channel", "a")], [("channel", "b")]).text("channel")


def test_query_and_body_are_joined() -> None:
    """An array may come in parts."""
    params = collect(urlencoded(b"entry=a&action=timeline"), json_object(b'{"entry":["b"]}'))
    assert params.many("entry") == ["a", "b"]
    assert params.text("action") == "timeline"


def counted(pairs: int, made: list[str], sender: str) -> Iterator[tuple[str, str]]:
    """That many pairs of a sender, who is noted for each when it is made."""
    for number in range(pairs):
        made.append(sender)
        yield "a", str(number)


async def test_many_large_bodies_leave_time_for_others() -> None:
    """Between two rounds of the event loop the process splits one piece of one body, however many there are."""
    made, before, rounds = list[str](), 0, list[int]()
    sent = [asyncio.create_task(in_turn("192.0.2.1", counted(2000, made, ""))) for _ in range(40)]
    await asyncio.sleep(0)
    assert len(made) == 40 * FEW_PAIRS
    while len(made) < 40 * 2000:
        before = len(made)
        await asyncio.sleep(0)
        rounds.append(len(made) - before)
    assert max(rounds) <= 500
    assert [len(pairs) for pairs in await asyncio.gather(*sent)] == [2000] * 40


async def test_a_network_with_many_bodies_delays_only_itself() -> None:
    """Another one waits for the body that is being split, and for no further one."""
    made, ended = list[str](), list[str]()

    async def send(network: str) -> None:
        await in_turn(network, counted(2000, made, network))
        ended.append(network)

    many = [asyncio.create_task(send("2001:db8::1")) for _ in range(20)]
    await asyncio.sleep(0)
    others = [asyncio.create_task(send(network)) for network in ("2001:db8:1::2", "192.0.2.1")]
    await asyncio.gather(*many, *others)
    assert set(ended[:4]) == {"2001:db8::1", "2001:db8:1::2", "192.0.2.1"}


async def test_bodies_of_many_parts_leave_time_for_others() -> None:
    """A part takes ten times as long as a pair, so another such body is split in a later round."""
    part = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
    body = RequestBody(part * 5 + b"--x--\r\n", "multipart/form-data; boundary=x")
    sent = [asyncio.create_task(body_pairs(body, "192.0.2.1")) for _ in range(20)]
    ended = [0]
    while ended[-1] < len(sent):
        await asyncio.sleep(0)
        ended.append(sum(one.done() for one in sent))
    assert max(after - before for before, after in pairwise(ended)) == 1
    assert {len([*pairs]) for pairs in await asyncio.gather(*sent)} == {5}


async def test_few_parameters_wait_for_nobody() -> None:
    """Nearly all requests have a few, and are answered while a large body is split."""
    made = list[str]()
    large = asyncio.create_task(in_turn("192.0.2.1", counted(9000, made, "")))
    await asyncio.sleep(0)
    assert await body_pairs(RequestBody(b"a=1&b=2", ""), "192.0.2.1") == [("a", "1"), ("b", "2")]
    assert len(made) < 9000
    assert len(await large) == 9000


async def test_an_endless_content_type_is_refused() -> None:
    """Splitting one with 28,000 parameters took as long as reading the body."""
    with pytest.raises(InvalidRequest, match="Content-Type"):
        await body_pairs(RequestBody(b"--x--", "multipart/form-data; boundary=x" + ";" * 28_000))


def test_a_flood_of_pairs_is_refused() -> None:
    """A body of nothing but separators costs no time."""
    with pytest.raises(InvalidRequest, match="too many parameters"):
        from_query("a=1&" * (MAX_PAIRS + 1))


@pytest.mark.parametrize(
    "document",
    [
        {"entry": ["a"] * (MAX_PAIRS + 1)},
        {"entry": [[]] * 250_000},
        {str(number): [] for number in range(90_000)},
        {f"p{n}": ["a"] * 5_001 for n in range(2)},
        {f"p{n}": 1 for n in range(10_001)},
    ],
)
def test_json_has_as_many_parameters_as_a_form(document: dict[str, object]) -> None:
    """In one list, in several, or each by a name of its own."""
    with pytest.raises(InvalidRequest, match="too many parameters"):
        list(json_object(json.dumps(document).encode()))
    assert len(list(json_object(json.dumps({"entry": ["a"] * MAX_PAIRS}).encode()))) == MAX_PAIRS


def test_values_are_not_in_the_representation() -> None:
    """A token among the parameters can't get into a log by mistake."""
    assert "secret" not in repr(from_query("access_token=alice.secret"))


def test_quoted_values_are_short_and_printable() -> None:
    """A quoted value can break neither a terminal nor a log line."""
    with pytest.raises(InvalidRequest) as caught:
        from_query("c=" + "%0A" + "x" * 500 + "&c=y").text("c")
    assert len(caught.value.description) < 250
    assert "\n" not in caught.value.description


SECRETS = (
    "code", "token", "access_token", "refresh_token", "code_verifier", "password", "client_secret", "form_token",
    "Code", "id_token", "assertion", "client_assertion", "again", "api_key", "authorization", "headers",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_errors_contain_no_secrets(name: str) -> None:
    """This holds for two values, however they are sent, and for an invalid one."""
    for params in (
        from_query(f"{name}=Hunter1&{name}[]=Hunter2"),
        collect(json_object(b'{"%b":["Hunter1","Hunter2"]}' % name.encode())),
    ):
        with pytest.raises(InvalidRequest, match=f"'{name}' has more than one value") as caught:
            params.text(name)
        assert "Hunter" not in str(caught.value)
    assert "Hunter" not in str(wrong(name, "Hunter1", "another"))


def test_errors_contain_no_secrets_of_addresses() -> None:
    """Secrets in an address are masked before it is truncated."""
    address = f"https://ann:Hunter1@a.example/feed?{'x' * 60}&key=Hunter2"
    params = collect([("url", address), ("url", address + "&b")])
    with pytest.raises(InvalidRequest) as caught:
        params.text("url")
    assert "a.example" in str(caught.value)
    assert "Hunter" not in str(caught.value)
    assert "Hunter" not in str(wrong("url", address, "another"))
