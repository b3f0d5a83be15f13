"""The page of services to which posts can be sent, and their links at posts."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from microsub.model.jf2 import Entry
from tests.reader.conftest import ReadingVisitor

PAGE = "/settings/services"


async def send(ann: ReadingVisitor, path: str = PAGE, **fields: str) -> str:
    """The text of the page after this form was sent."""
    sent = await ann.browser.submit(await ann.get(PAGE), path, **fields)
    return (await ann.get(sent.location)).text if sent.status == 303 else sent.text


async def links(ann: ReadingVisitor, path: str) -> list[tuple[str, str]]:
    """The services at the first post of a page: name and address."""
    found = (await ann.get(path)).tree.css(".post .service")
    return [(str(one.text()), one.attributes["href"] or "") for one in found]


async def test_a_post_has_links_to_services(ann: ReadingVisitor) -> None:
    """In lists and on its own page, in the chosen order; the first one is said to have the key."""
    one = await ann.publish_entry(Entry(uid="1", url="https://blog.example/1?a=b&c", name="Tea & “bread”"))
    assert await links(ann, f"/post/{one}") == []
    assert "Key w" not in (await ann.get(PAGE)).text
    assert "Saved, for all your browsers." in await send(ann, kind="Wallabag", address="bag.example", name="My <bag>")
    assert "Saved" in await send(ann, kind="Email", address="", name="")
    for path in (f"/post/{one}", "/channel/home?show=all"):
        (bag, mail) = await links(ann, path)
        assert bag[0] == "My <bag>"
        assert bag[1].startswith("https://bag.example/bookmarklet?")
        assert parse_qs(urlsplit(bag[1]).query) == {"url": ["https://blog.example/1?a=b&c"]}
        assert parse_qs(urlsplit(mail[1]).query) == {
            "subject": ["Tea & “bread”"],
            "body": ["https://blog.example/1?a=b&c"],
        }
    listed = [str(one.text()) for one in (await ann.get(PAGE)).tree.css("main .list li div")]
    assert ["Key w" in text for text in listed] == [True, False]
    assert "no longer have this link" in await send(ann, f"{PAGE}/remove", name="My <bag>")
    assert [name for name, _ in await links(ann, f"/post/{one}")] == ["Email"]


async def test_a_post_without_an_address_has_no_links(ann: ReadingVisitor) -> None:
    one = await ann.publish_entry(Entry(uid="1", name="Note"))
    await send(ann, kind="Email", address="", name="")
    assert await links(ann, f"/post/{one}") == []


async def test_a_wrong_address_is_said_and_stays_in_its_field(ann: ReadingVisitor) -> None:
    sent = await ann.browser.submit(await ann.get(PAGE), PAGE, kind="", address="javascript:{url}", name="Bad")
    assert sent.status == 400
    assert "“javascript:{url}” is no address of a service" in sent.text
    fields = {field: sent.tree.css_first(f"#{field}").attributes.get("value") for field in ("address", "name")}
    assert fields == {"address": "javascript:{url}", "name": "Bad"}
    assert (await ann.get(PAGE)).tree.css("main .list li") == []


async def test_a_service_of_the_same_name_is_said_to_be_replaced(ann: ReadingVisitor) -> None:
    """One of the same kind without a name stays beside it."""
    await send(ann, kind="Mastodon", address="a.example", name="")
    assert "takes the place" not in await send(ann, kind="Mastodon", address="b.example", name="")
    assert "takes the place" in await send(ann, kind="", address="https://c.example/{url}", name="b.example")
    listed = [str(one.text()) for one in (await ann.get(PAGE)).tree.css("main .list li div")]
    assert ["Mastodon" in listed[0], listed[1]] == [True, "b.examplehttps://c.example/{url}"]
