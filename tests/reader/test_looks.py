"""The name and the colour of the instance, which an admin chooses on a page or in backend.json."""

from __future__ import annotations

import pytest

from microsub.configuration.model import InstanceSettings
from microsub.web.looks import Looks
from tests.reader.conftest import ADDRESS, ReadingVisitor
from tests.support.visitor import Shown, Visitor

PATH = "/admin/looks"


@pytest.fixture
async def admin(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> ReadingVisitor:
    """Ann as an admin, of a server whose pages read the looks each time."""
    monkeypatch.setattr("microsub.reader.looks.KEPT", 0.0)
    await ann.server.accounts.set_admin("ann", True)
    return ann


async def choose(admin: ReadingVisitor, **chosen: str) -> Shown:
    sent = await admin.browser.submit(await admin.get(PATH), PATH, **chosen)
    return await admin.get(sent.location) if sent.location else sent


def sheet(page: Shown) -> str:
    """The name of the first style sheet, which all pages have."""
    return (page.tree.css("link[rel=stylesheet]")[0].attributes["href"] or "").rpartition("/")[2]


async def test_name_and_colour_are_on_all_pages(admin: ReadingVisitor) -> None:
    """In head and title, before the sign-in, in the app's manifest, and where errors are shown."""
    page = await choose(admin, name="Harbour <b>", color="#FFEE00")
    assert "#ffee00 is too light for text there." in page.text
    assert "is too dark" not in page.text
    stranger = Visitor(admin.server.app, ADDRESS)
    for browser, first in ((admin.browser, "/account"), (stranger, "/sign-in")):
        for path in (first, "/", "/display", "/check", "/nothing/here"):
            shown = await browser.get(path, accept="text/html")
            assert shown.tree.css_first("title").text().endswith(" – Harbour <b>"), path
            assert shown.tree.css_first(".home").text() == "Harbour <b>"
            assert sheet(shown) == "ffee00.css", path
    address = page.tree.css_first("link[rel=stylesheet]").attributes["href"] or ""
    reply = (await stranger.get(address)).response
    assert ".wide" in reply.text
    assert reply.text.endswith(f"{{ --accent: light-dark({Looks(color='#ffee00').light}, #ffee00); }}\n")
    assert (reply.headers["content-type"], "immutable" in reply.headers["cache-control"]) == (
        "text/css; charset=utf-8",
        True,
    )
    manifest = (await stranger.get("/app.webmanifest")).response.json()
    assert (manifest["name"], manifest["short_name"], manifest["theme_color"]) == (
        "Harbour <b>",
        "Harbour <b>",
        "#787000",
    )
    assert address in (await stranger.get("/service-worker.js")).response.text


@pytest.mark.parametrize("name", ["\u200b", "\u2060\u200b ", "\u202e"])
async def test_a_name_that_cant_be_seen_is_none(admin: ReadingVisitor, name: str) -> None:
    """Otherwise the link to the first page would have no text."""
    assert (await choose(admin, name=name)).tree.css_first(".home").text() == "Reader"


async def test_the_usual_looks_can_be_chosen_again(admin: ReadingVisitor) -> None:
    """Then the style sheet is the usual one."""
    await choose(admin, name="Harbour", color="#123456")
    await choose(admin, name="", usual="yes")
    shown = await admin.get("/")
    assert shown.tree.css_first(".home").text() == "Reader"
    assert sheet(shown) == "pages.css"
    assert (await admin.get("/app.webmanifest")).response.json()["theme_color"] == "#0b57a4"


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"color": "red"}, "six digits"),
        ({"color": "#12345g"}, "six digits"),
        ({"color": "#0b57a4;}"}, "six digits"),
        ({"name": "x" * 41}, "more than 40 characters"),
    ],
)
async def test_other_looks_are_refused(admin: ReadingVisitor, chosen: dict[str, str], said: str) -> None:
    """With the reason on the page; nothing changes."""
    refused = await choose(admin, **chosen)
    assert (refused.status, said in refused.text) == (400, True)
    assert (await admin.get("/")).tree.css_first(".home").text() == "Reader"


async def test_a_name_is_one_printable_line(admin: ReadingVisitor) -> None:
    """Marks that turn text around are left out."""
    await choose(admin, name=" Har\nbour \u202e")
    assert (await admin.get("/")).tree.css_first(".home").text() == "Har bour"


async def test_backend_json_comes_first(admin: ReadingVisitor) -> None:
    """The page names the file, and its fields are disabled."""
    await choose(admin, name="Page", color="#123456")
    await admin.server.declared.set_instance(InstanceSettings(name="File"))
    page = await admin.get(PATH)
    assert page.tree.css_first(".home").text() == "File"
    assert sheet(page) == "123456.css"
    assert "disabled" in page.tree.css_first("#name").attributes
    assert "disabled" not in page.tree.css_first("#color").attributes
    assert "settings.name" in page.text
    await admin.server.declared.set_instance(InstanceSettings(color="#ABCDEF"))
    page = await admin.get(PATH)
    assert (page.tree.css_first(".home").text(), sheet(page)) == ("Page", "abcdef.css")
    assert "disabled" in page.tree.css_first("#color").attributes


async def test_a_choice_lasts_while_backend_json_comes_first(admin: ReadingVisitor) -> None:
    """A browser sends no disabled field: what an admin chose for it before is there when the file has none."""
    await choose(admin, name="Page", color="#123456")
    await admin.server.declared.set_instance(InstanceSettings(name="File"))
    await choose(admin, color="#654321")
    await admin.server.declared.set_instance(InstanceSettings(color="#ABCDEF"))
    assert (await admin.get("/")).tree.css_first(".home").text() == "Page"
    await choose(admin, name="Other")
    await admin.server.declared.set_instance(InstanceSettings())
    page = await admin.get("/")
    assert (page.tree.css_first(".home").text(), sheet(page)) == ("Other", "654321.css")
