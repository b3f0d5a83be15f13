"""`/opml`: import and export of lists of feeds, with a user's token."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from microsub.configuration.model import InstanceSettings, Quotas
from microsub.model.settings import OwnChannelSettings
from microsub.transfer.list_imports import LISTS_OF_USER
from microsub.transfer.outlines import MOST_BYTES
from tests.support.readers import Reader
from tests.support.world import World

LIST = b"<opml><body><outline text='News'><outline text='A' xmlUrl='https://a.example/feed'/></outline></body></opml>"


async def ask(server: World, token: str | None, verb: str = "POST", path: str = "/opml", **more: Any) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body = {"content": LIST, **more} if verb == "POST" else more
    return await server.client.request(verb, path, headers=headers, **body)


async def test_a_list_goes_in_and_comes_out(server: World, alice: Reader) -> None:
    """The reply is the report; a dry run changes nothing; apps may fetch the exported list."""
    dry = (await ask(server, alice.token, params={"dry_run": "true"})).json()
    assert (dry["dry_run"], dry["added"]) == (True, 1)
    assert "news" not in await alice.channels()
    done = (await ask(server, alice.token)).json()
    assert done["channels"] == [{"uid": "news", "name": "News", "made": True, "added": 1, "existing": 0, "also": {}}]
    assert (done["added"], done["existing"], done["problems"]) == (1, 0, [])
    reply = await ask(server, alice.token, "GET")
    assert reply.headers["content-type"] == "text/x-opml; charset=utf-8"
    assert reply.headers["access-control-allow-origin"] == "*"
    again = (await ask(server, alice.token, content=reply.content)).json()
    assert (again["added"], again["existing"]) == (0, 1)
    loose = LIST.replace(b"<outline text='News'>", b"").replace(b"/></outline>", b"/>")
    found = (await ask(server, alice.token, content=loose, params={"name": "Later"})).json()
    assert [one["uid"] for one in found["channels"]] == ["later"]


async def test_passwords_and_keys_stay_here(server: World, alice: Reader) -> None:
    """A list for apps has none, and a feed whose password is missing isn't followed."""
    await alice.post(action="follow", channel="home", url="https://ann:secret@b.example/feed?token=1234")
    reply = await ask(server, alice.token, "GET")
    assert "secret" not in reply.text
    assert "1234" not in reply.text
    found = (await ask(server, alice.token, content=reply.content)).json()
    assert [one["why"] for one in found["problems"]] == ["its password or key was removed when the list was exported"]


@pytest.mark.parametrize(
    ("scopes", "verb", "missing"),
    [(("read",), "POST", "follow"), (("follow",), "POST", "channels"), (("follow", "channels"), "GET", "read")],
)
async def test_scopes(server: World, alice: Reader, scopes: tuple[str, ...], verb: str, missing: str) -> None:
    """Reading needs `read`; a list creates channels and follows feeds, and needs both scopes."""
    reply = await ask(server, await server.grant("alice", *scopes), verb)
    assert (reply.status_code, reply.json()["scope"]) == (403, missing)


async def test_a_token_opens_only_its_users_list(server: World, alice: Reader, bob: Reader) -> None:
    """A token gives access to its own user's list."""
    for verb in ("GET", "POST"):
        assert (await ask(server, alice.token, verb, "/opml/")).status_code == 200
        assert (await ask(server, alice.token, verb, "/opml/bob")).status_code == 404
        assert (await ask(server, None, verb)).status_code == 401
        assert (await ask(server, "nonsense", verb)).status_code == 401
    assert "a.example" not in (await ask(server, bob.token, "GET")).text


async def test_unusable_lists_are_refused_with_the_reason(server: World, alice: Reader) -> None:
    """Each error says what is wrong, with the line."""
    reply = await ask(server, alice.token, content=b"<html></html>")
    assert (reply.status_code, "line 1: found <html>" in reply.text) == (400, True)
    assert (await ask(server, alice.token, content=b" " * (MOST_BYTES + 1))).status_code == 413
    assert (await ask(server, alice.token, params={"dry_run": "maybe"})).status_code == 400
    assert (await ask(server, alice.token, params={"name": "x" * 201})).status_code == 400
    assert (await ask(server, alice.token, "DELETE")).status_code == 405


async def test_filters_are_the_admins(server: World, alice: Reader) -> None:
    """Expressions cost processor time: an app's list sets none, and the report lists this; other settings count."""
    settings = """microsub:unread="none" microsub:filters='{"include_regex": "(?:[ab ]*a[ab ]{900}c)"}'"""
    content = LIST.replace(b"<opml>", b'<opml xmlns:microsub="urn:microsub:opml">').replace(
        b"</body>", f"<outline text='New' {settings}><outline xmlUrl='https://b.example/'/></outline></body>".encode()
    )
    found = (await ask(server, alice.token, content=content)).json()
    assert [one["why"] for one in found["problems"]] == ["its filters are left out: only the admin can set them"]
    made = next(one for one in await server.channels.list(alice.name) if one.name == "New")
    assert (made.settings.unread, made.settings.filters) == ("none", OwnChannelSettings().filters)


async def test_quotas_and_limits(server: World, alice: Reader) -> None:
    """A user's quotas apply, and imports per minute are limited."""
    server.settings = InstanceSettings(quotas=Quotas(feeds=1))
    more = LIST.replace(b"</body>", b"<outline xmlUrl='https://b.example/feed'/></body>")
    found = (await ask(server, alice.token, content=more)).json()
    assert (found["added"], [one["why"][:26] for one in found["problems"]]) == (1, ["the limit for feeds is rea"])
    for _ in range(LISTS_OF_USER.most - 1):
        await ask(server, alice.token)
    reply = await ask(server, alice.token)
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "60")
