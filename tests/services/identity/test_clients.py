"""What apps say of themselves, and what is believed of it."""

from __future__ import annotations

import asyncio

import pytest

from microsub.fetch import Answered, FetchFailed, Hop, Sending
from microsub.services.identity.clients import MAX_LOGO, Clients
from tests.support.apps import Apps

APP = "https://app.example/"
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


async def test_a_document_and_its_logo_are_fetched_once() -> None:
    """However many want to know, also at once."""
    apps = Apps()
    apps.say(APP, {"client_id": APP, "client_name": "App", "logo_uri": f"{APP}logo"})
    apps.say(f"{APP}logo", PNG)
    clients = Clients(apps)
    found = await asyncio.gather(*(clients.find(APP) for _ in range(5)))
    assert {app.title for app in found} == {"App"}
    assert (found[0].logo or "").startswith("data:image/png;base64,")
    assert apps.asked == [APP, f"{APP}logo"]


@pytest.mark.parametrize("client", ["http://127.0.0.1:3000/", "http://localhost/", "http://[::1]/"])
async def test_an_app_on_the_same_machine_is_not_asked(client: str) -> None:
    """There would be this server's machine, and not the reader's."""
    apps = Apps()
    app = await Clients(apps).find(client)
    assert (app.info.id, app.answered, apps.asked) == (client, False, [])


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"not found", "text/plain", 404),
        (b"{", "application/json", 200),
        (b"[]", "application/json", 200),
        (b'{"client_id": "https://other.example/"}', "application/json", 200),
        (b"{}", "application/json", 200),
        (b"x" * 300_000, "text/html", 200),
    ],
)
async def test_what_can_not_be_used_leaves_the_identifier(body: bytes, kind: str, status: int) -> None:
    """And is asked for again only after a while."""
    apps = Apps()
    apps.answers[APP] = Answered(status, {"content-type": kind}, body, APP)
    clients = Clients(apps)
    for _ in range(2):
        app = await clients.find(APP)
        assert (app.title, app.info.name, app.answered) == ("app.example", None, False)
    assert apps.asked == [APP]


async def test_any_redirect_to_another_host_ends_the_belief() -> None:
    """Also one that comes back in the end: whoever stands between may have said what they liked."""
    for final, hops in (
        ("https://other.example/", ()),
        (APP, (Hop("https://other.example/", False), Hop(APP, False))),
        ("http://app.example/", (Hop("http://app.example/", True),)),
    ):
        apps = Apps()
        apps.say(APP, {"client_id": APP, "client_name": "App"}, final_url=final, hops=hops)
        assert not (await Clients(apps).find(APP)).answered, final
    apps = Apps()
    place = f"{APP}app/index.json"
    apps.say(APP, {"client_id": APP, "client_name": "App"}, final_url=place, hops=(Hop(place, True),))
    assert (await Clients(apps).find(APP)).answered


async def test_requests_are_bounded_and_say_nothing_of_the_reader() -> None:
    """A GET of seconds, with a limit on the bytes, and without a token."""
    seen: list[Sending] = []

    class Sender:
        async def send(self, sending: Sending) -> Answered | FetchFailed:
            seen.append(sending)
            body = f'<div class="h-app"><a class="u-url p-name" href="{APP}">A</a><img class="u-logo" src="/l"></div>'
            return Answered(200, {"content-type": "text/html"}, body.encode(), sending.url)

    app = await Clients(Sender()).find(APP)
    assert app.title == "A"
    assert [(s.url, s.method, s.bearer, s.form) for s in seen] == [
        (APP, "GET", None, None),
        (f"{APP}l", "GET", None, None),
    ]
    assert sum(s.limits.total for s in seen) <= 7
    assert seen[1].limits.body == MAX_LOGO
    assert app.logo is None


async def test_a_bug_is_not_taken_for_an_app_that_is_away() -> None:
    """Only what apps and networks do is expected."""

    class Broken:
        async def send(self, _: Sending) -> Answered | FetchFailed:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Clients(Broken()).find(APP)
