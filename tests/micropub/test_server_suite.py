"""The cases of the public test suite for Micropub servers (https://micropub.rocks/), by number."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.model.reader import POSTING_SCOPES
from tests.micropub.conftest import BASE, SourceClient, items
from tests.support.reader import Reader
from tests.support.world import World

JPEG, PNG, GIF = b"\xff\xd8\xff\xe0" + b"j" * 50, b"\x89PNG\r\n\x1a\n" + b"p" * 50, b"GIF89a" + b"g" * 50
SUNSET = "https://pictures.example/sunset.jpg"


async def test_100_an_entry_by_form(sender: SourceClient, alice: Reader) -> None:
    """The reply is 201 with the post's URL; the post is in the channel, unread, with its source."""
    address = await sender.note("Micropub test of creating a basic h-entry")
    assert address.startswith(f"{BASE}/posts/")
    (item,) = await items(alice)
    assert item["content"]["text"] == "Micropub test of creating a basic h-entry"
    assert (item["url"], item["_is_read"], item["author"]["name"]) == (address, False, "Backups")
    ((shown,),) = (await alice.get(action="follow", channel="home")).values()
    assert (shown["_id"], shown["name"]) == (item["_source"], "Backups")


async def test_101_several_categories_by_form(sender: SourceClient, alice: Reader) -> None:
    """`category[]` twice are two categories."""
    await sender.post(content=b"h=entry&content=Two&category[]=test1&category[]=test2", headers=FORM)
    assert (await items(alice))[0]["category"] == ["test1", "test2"]


async def test_104_a_picture_by_its_address_in_a_form(sender: SourceClient, alice: Reader) -> None:
    """`photo` is a URL."""
    await sender.note("Nice sunset tonight", photo=SUNSET)
    assert (await items(alice))[0]["photo"] == [SUNSET]


async def test_107_one_category_by_form(sender: SourceClient, alice: Reader) -> None:
    """`category` without brackets is one."""
    await sender.note("One", category="test1")
    assert (await items(alice))[0]["category"] == ["test1"]


async def test_106_an_item_within_a_form(sender: SourceClient, alice: Reader) -> None:
    """It is kept; a nested part of a text value is no error."""
    fields = {"x-weight[type]": "h-measure", "x-weight[properties][num]": "70.64", "x-weight[properties][unit]": "kg"}
    address = await sender.post(data={"summary": "Weighed", **fields, "x-weight[type][of]": "x"})
    measure = {"type": "h-measure", "properties": {"num": "70.64", "unit": "kg"}}
    assert (await sender.stored(address))["x-weight"] == [measure]


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def entry(**properties: Any) -> dict[str, Any]:
    return {"json": {"type": ["h-entry"], "properties": {name.replace("_", "-"): v for name, v in properties.items()}}}


async def test_200_and_201_an_entry_with_categories_in_json(sender: SourceClient, alice: Reader) -> None:
    """Microformats in JSON."""
    await sender.post(**entry(content=["JSON"], category=["test1", "test2"]))
    (item,) = await items(alice)
    assert (item["content"]["text"], item["category"]) == ("JSON", ["test1", "test2"])


async def test_202_html(sender: SourceClient, alice: Reader) -> None:
    """Content is markup only if it is sent as `html`, and is sanitised like that of any publisher."""
    await sender.post(**entry(content=[{"html": "<p>This <b>is</b> bold<script>alert(1)</script></p>"}]))
    await sender.note("1 < 2 <b>not bold</b>")
    by_text = {item["content"]["text"]: item["content"]["html"] for item in await items(alice)}
    assert by_text["This is bold"] == "<p>This <b>is</b> bold</p>"
    assert "&lt;b&gt;" in by_text["1 < 2 <b>not bold</b>"]


async def test_203_and_206_pictures_by_their_addresses_in_json(sender: SourceClient, alice: Reader) -> None:
    """One picture and several."""
    await sender.post(**entry(content=["Two"], photo=[SUNSET, f"{SUNSET}?2"]))
    assert (await items(alice))[0]["photo"] == [SUNSET, f"{SUNSET}?2"]


async def test_204_an_item_within(sender: SourceClient, alice: Reader) -> None:
    """Properties that this server doesn't know are kept as they were sent."""
    measure = {"type": ["h-measure"], "properties": {"num": ["70.64"], "unit": ["kg"]}}
    address = await sender.post(**entry(summary=["Weighed 70.64 kg"], x_weight=[measure]))
    assert (await sender.stored(address))["x-weight"] == [measure]
    assert (await items(alice))[0]["summary"] == "Weighed 70.64 kg"


async def test_205_a_picture_with_words_for_it(sender: SourceClient, alice: Reader) -> None:
    """A picture with `alt`."""
    picture = {"value": SUNSET, "alt": "Photo of a sunset"}
    address = await sender.post(**entry(content=["Nice"], photo=[picture]))
    assert (await sender.stored(address))["photo"] == [picture]
    assert (await items(alice))[0]["photo"] == [SUNSET]


async def test_300_and_301_pictures_in_a_multipart_form(sender: SourceClient, alice: Reader, server: World) -> None:
    """Files are kept, and the post shows them by their URLs on this server."""
    files = [("photo[]", ("a.jpg", JPEG, "image/jpeg")), ("photo[]", ("b.png", PNG, "image/png"))]
    await sender.post(data={"h": "entry", "content": "Two photos"}, files=files)
    photos = (await items(alice))[0]["photo"]
    found = [await server.client.get(photo) for photo in photos]
    assert [(one.content, one.headers["content-type"]) for one in found] == [(JPEG, "image/jpeg"), (PNG, "image/png")]
    await sender.post(data={"h": "entry", "content": "One"}, files={"photo": ("c.gif", GIF, "image/gif")})
    assert len((await items(alice))[0]["photo"]) == 1


async def change(sender: SourceClient, status: int = 204, **what: Any) -> dict[str, Any]:
    """The properties of a post with category `test1` after an update."""
    address = await sender.post(**entry(content=["Before"], category=["test1", "test2"]))
    await sender.send(status, json={"action": "update", "url": address, **what})
    return await sender.stored(address)


async def test_400_replacing_a_property(sender: SourceClient, alice: Reader) -> None:
    """The channel shows the new value, and the post isn't duplicated."""
    assert (await change(sender, replace={"content": ["After"]}))["content"] == ["After"]
    (item,) = await items(alice)
    assert item["content"]["text"] == "After"


async def test_401_and_402_adding_values(sender: SourceClient, alice: Reader) -> None:
    """Values are added to existing and new properties; existing values aren't duplicated."""
    assert (await change(sender, add={"category": ["test2", "test3"]}))["category"] == ["test1", "test2", "test3"]
    assert (await change(sender, add={"syndication": ["https://a.example/"]}))["syndication"] == ["https://a.example/"]


async def test_403_and_404_removing_values_and_properties(sender: SourceClient, alice: Reader) -> None:
    """A list removes whole properties, an object only the given values."""
    assert (await change(sender, delete={"category": ["test1"]}))["category"] == ["test2"]
    assert "category" not in await change(sender, delete=["category"])


@pytest.mark.parametrize(
    "what",
    [{"replace": {"content": "text"}}, {"add": {"category": "a"}}, {"delete": "category"}, {"replace": "x"}, {}],
)
async def test_405_what_is_no_list_is_refused(sender: SourceClient, alice: Reader, what: dict[str, Any]) -> None:
    """Nothing is changed."""
    found = await change(sender, 400, **what)
    assert (found["content"], found["category"]) == (["Before"], ["test1", "test2"])


@pytest.mark.parametrize("how", ["data", "json"])
async def test_500_to_503_deleting_and_restoring(sender: SourceClient, alice: Reader, server: World, how: str) -> None:
    """By form and JSON: a deleted post leaves the channel and its page answers 410; a restored post has a new URL."""
    address = await sender.note("Here and gone")
    await sender.send(204, **{how: {"action": "delete", "url": address}})
    assert await items(alice) == []
    assert (await server.client.get(address)).status_code == 410
    await sender.send(204, **{how: {"action": "delete", "url": address}})
    restored = await sender.post(201, **{how: {"action": "undelete", "url": address}})
    (item,) = await items(alice)
    assert (item["content"]["text"], item["url"]) == ("Here and gone", restored)
    assert (await server.client.get(restored)).status_code == 200
    assert await sender.post(201, **{how: {"action": "undelete", "url": address}}) == restored


async def test_600_and_601_configuration(sender: SourceClient) -> None:
    """`q=config` names the media endpoint; there is no syndication."""
    config = await sender.get(q="config")
    assert config["media-endpoint"] == f"{BASE}/media"
    assert config["channels"] == (await sender.get(q="channel"))["channels"] == [{"uid": "home", "name": "Home"}]
    assert (await sender.get(q="syndicate-to")) == {"syndicate-to": []}


async def test_602_and_603_what_was_sent(sender: SourceClient) -> None:
    """All properties with the type, or only the requested properties without it."""
    address = await sender.post(**entry(content=["Test"], category=["a", "b"]))
    assert await sender.get(q="source", url=address) == {
        "type": ["h-entry"],
        "properties": {"content": ["Test"], "category": ["a", "b"]},
    }
    asked = await sender.get(q="source", url=address, **{"properties[]": ["category", "none"]})
    assert asked == {"properties": {"category": ["a", "b"]}}
    await sender.get(400, q="source", url=f"{BASE}/posts/1.AAAAAAAAAAAAAAAAAAAAAA")


@pytest.mark.parametrize(("name", "data", "kind"), [("700", JPEG, "jpeg"), ("701", PNG, "png"), ("702", GIF, "gif")])
async def test_700_to_702_the_place_for_files(
    sender: SourceClient, server: World, name: str, data: bytes, kind: str
) -> None:
    """The reply is 201 with the file's URL."""
    reply = await sender.send(path="/media", files={"file": (name, data, f"image/{kind}")})
    found = await server.client.get(reply.headers["location"])
    assert (found.content, found.headers["content-type"]) == (data, f"image/{kind}")


async def test_800_to_802_the_token(sender: SourceClient) -> None:
    """It is in the header or in the form, and isn't stored with the post."""
    fields = {"h": "entry", "content": "Testing accepting access token in post body", "access_token": sender.token}
    address = await sender.post(token=None, data=fields)
    assert await sender.stored(address) == {"content": ["Testing accepting access token in post body"]}


async def test_803_no_token(sender: SourceClient, alice: Reader) -> None:
    """A missing or invalid token is answered with 401."""
    for token in (None, "alice.nonsense"):
        reply = await sender.send(401, token=token, data={"h": "entry", "content": "x"})
        assert reply.json()["error"] == "unauthorized"
    assert await items(alice) == []


async def test_804_a_token_for_something_else(sender: SourceClient, alice: Reader, server: World) -> None:
    """A reader's token can't post, and a source's token can't read."""
    for scopes in (("read",), POSTING_SCOPES):
        other = await server.grant("alice", *scopes)
        reply = await sender.send(401, token=other, data={"h": "entry", "content": "x"})
        assert reply.json()["error"] == "insufficient_scope"
    reader = Reader("alice", sender.token, server.client)
    assert (await reader.get(403, action="timeline", channel="home"))["error"] == "insufficient_scope"


async def test_805_two_tokens(sender: SourceClient, alice: Reader) -> None:
    """One in the header and another in the form are refused. The same in both, as Quill sends it, is one token."""
    reply = await sender.send(400, data={"h": "entry", "content": "x", "access_token": "alice.nonsense"})
    assert reply.json()["error"] == "invalid_request"
    assert await items(alice) == []
    await sender.send(201, data={"h": "entry", "content": "From Quill", "access_token": sender.token})
    picture = {"photo": ("a.png", b"\x89PNG\r\n\x1a\n", "image/png")}
    await sender.send(201, data={"h": "entry", "content": "Seen", "access_token": sender.token}, files=picture)
    assert [item["content"]["text"] for item in await items(alice)] == ["Seen", "From Quill"]
