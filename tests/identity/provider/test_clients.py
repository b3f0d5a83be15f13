"""Metadata of apps: how it is fetched, and how much of it is trusted."""

from __future__ import annotations

import asyncio

import pytest

from microsub.base.clock import MINUTE
from microsub.base.errors import TooManyRequests
from microsub.fetch import Answered, FetchFailed, Hop, Sending
from microsub.identity.clients import MAX_LOGO, Asker, ClientApps
from microsub.identity.limits import CLIENT_FAILURE, METADATA_FOR_STRANGERS, METADATA_FOR_USERS
from tests.support.apps import Apps
from tests.support.parsing import PARSER

APP = "https://app.example/"
ANN = Asker("8.8.8.8", "ann")
STRANGER = Asker("8.8.4.4")
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


async def test_a_document_and_its_logo_are_fetched_once() -> None:
    """Concurrent and later requests share one fetch."""
    apps = Apps()
    apps.say(APP, {"client_id": APP, "client_name": "App", "logo_uri": f"{APP}logo"})
    apps.say(f"{APP}logo", PNG)
    clients = ClientApps(apps, PARSER, patience=60)
    found = await asyncio.gather(*(clients.find(APP, ANN) for _ in range(5)))
    assert {app.title for app in found} == {"App"}
    assert (found[0].picture or "").startswith("data:image/png;base64,")
    assert apps.asked == [APP, f"{APP}logo"]


@pytest.mark.parametrize(
    "client", ["http://127.0.0.1:3000/", "http://localhost/", "http://app.localhost:80/", "http://[::1]/"]
)
async def test_an_app_on_the_same_machine_is_not_fetched(client: str) -> None:
    """For the server, a loopback address is its own machine, not the reader's."""
    apps = Apps()
    app = await ClientApps(apps, PARSER, patience=60).find(client, ANN)
    assert (app.id, app.answered, apps.asked) == (client, False, [])


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
async def test_unusable_metadata_leaves_the_identifier(body: bytes, kind: str, status: int) -> None:
    """The app is shown by its identifier, and its metadata is requested again only after a while."""
    apps = Apps()
    apps.answers[APP] = Answered(status, {"content-type": kind}, body, APP)
    clients = ClientApps(apps, PARSER, patience=60)
    for _ in range(2):
        app = await clients.find(APP, ANN)
        assert (app.title, app.name, app.answered) == ("app.example", None, False)
    assert apps.asked == [APP]


async def test_a_redirect_to_another_host_isnt_trusted() -> None:
    """Redirects that return to the app's host count too, because a host in between may have changed the document."""
    for final, hops in (
        ("https://other.example/", ()),
        (APP, (Hop("https://other.example/", False), Hop(APP, False))),
        ("http://app.example/", (Hop("http://app.example/", True),)),
    ):
        apps = Apps()
        apps.say(APP, {"client_id": APP, "client_name": "App"}, final_url=final, hops=hops)
        assert not (await ClientApps(apps, PARSER, patience=60).find(APP, ANN)).answered, final
    apps = Apps()
    place = f"{APP}app/index.json"
    apps.say(APP, {"client_id": APP, "client_name": "App"}, final_url=place, hops=(Hop(place, True),))
    assert (await ClientApps(apps, PARSER, patience=60).find(APP, ANN)).answered


async def test_requests_are_bounded_and_dont_identify_the_reader() -> None:
    """A GET with limits of time and size, and without a token."""
    seen: list[Sending] = []

    class Sender:
        async def send(self, sending: Sending) -> Answered | FetchFailed:
            seen.append(sending)
            body = f'<div class="h-app"><a class="u-url p-name" href="{APP}">A</a><img class="u-logo" src="/l"></div>'
            return Answered(200, {"content-type": "text/html"}, body.encode(), sending.url)

    app = await ClientApps(Sender(), PARSER, patience=60).find(APP, ANN)
    assert app.title == "A"
    assert [(s.url, s.method, s.bearer, s.form) for s in seen] == [
        (APP, "GET", None, None),
        (f"{APP}l", "GET", None, None),
    ]
    assert all(s.limits.total <= 4 for s in seen)
    assert seen[1].limits.body == MAX_LOGO
    assert app.picture is None


async def test_a_bug_isnt_taken_for_an_unreachable_app() -> None:
    """Only failures of apps and networks are caught."""

    class Broken:
        async def send(self, _: Sending) -> Answered | FetchFailed:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ClientApps(Broken(), PARSER, patience=60).find(APP, ANN)


class Slow(Apps):
    """Answers only when the `gate` is open, but at once for URLs in `quick`."""

    def __init__(self, *quick: str) -> None:
        super().__init__()
        self.quick = quick
        self.gate = asyncio.Event()

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        answer = await super().send(sending)
        if sending.url not in self.quick:
            await self.gate.wait()
        return answer


async def test_a_slow_app_delays_no_page() -> None:
    """The page shows the identifier; the late answer is available to the next page without another request."""
    apps = Slow()
    apps.say(APP, {"client_id": APP, "client_name": "App"})
    clients = ClientApps(apps, PARSER, patience=0.01)
    app = await clients.find(APP, ANN)
    assert (app.id, app.answered) == (APP, False)
    apps.gate.set()
    assert (await ClientApps(apps, PARSER, patience=60).find(APP, ANN)).title == "App"
    while clients.would_ask(APP):
        await asyncio.sleep(0)
    assert (await clients.find(APP, ANN)).title == "App"
    assert apps.asked == [APP, APP]


async def test_a_slow_logo_is_left_out() -> None:
    """The app is shown with everything that its document says, except the logo."""
    apps = Slow(APP)
    apps.say(APP, {"client_id": APP, "client_name": "App", "logo_uri": f"{APP}logo"})
    clients = ClientApps(apps, PARSER, patience=0.01)
    await clients.find(APP, STRANGER)
    while clients.would_ask(APP):
        await asyncio.sleep(0)
    app = await clients.find(APP, ANN)
    assert (app.title, app.picture, app.answered) == ("App", None, True)
    apps.gate.set()


async def test_a_stranger_gets_no_logo_fetched() -> None:
    """The logo may be on any host and isn't shown to strangers; after a sign-in it is fetched and shown."""
    apps = Apps()
    apps.say(APP, {"client_id": APP, "client_name": "App", "logo_uri": "https://pictures.example/logo"})
    apps.say("https://pictures.example/logo", PNG)
    clients = ClientApps(apps, PARSER, patience=60)
    app = await clients.find(APP, STRANGER)
    assert (app.title, app.picture, apps.asked) == ("App", None, [APP])
    assert (await clients.find(APP, ANN)).picture
    assert apps.asked == [APP, "https://pictures.example/logo"]


@pytest.mark.parametrize(
    ("asker", "at_once"),
    [(STRANGER, METADATA_FOR_STRANGERS.at_once_of_asker.most), (ANN, METADATA_FOR_USERS.at_once_of_asker.most)],
)
async def test_a_users_concurrent_app_requests_are_limited(asker: Asker, at_once: int) -> None:
    """The next app is refused until a request has ended; other users aren't affected; requests for one app share a
    place.
    """
    apps = Slow("https://of-others.example/")
    clients = ClientApps(apps, PARSER, patience=60)
    waiting = [
        asyncio.create_task(clients.find(f"https://app{number % at_once}.example/", asker))
        for number in range(2 * at_once)
    ]
    while len(apps.asked) < at_once:
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await clients.find(APP, asker)
    assert len(apps.asked) == at_once
    await clients.find("https://of-others.example/", Asker("9.9.9.9", "bob" if asker.user else ""))
    apps.gate.set()
    await asyncio.gather(*waiting)
    await clients.find(APP, asker)


async def test_concurrent_requests_to_a_host_are_limited() -> None:
    """The limit applies to all clients together; other hosts can still be requested."""
    apps = Slow("https://quick.example/")
    clients = ClientApps(apps, PARSER, patience=60)
    waiting = [
        asyncio.create_task(clients.find(f"{APP}{number}", Asker(f"8.8.{number}.8", f"u{number}")))
        for number in range(METADATA_FOR_USERS.at_once_to_host.most)
    ]
    while len(apps.asked) < METADATA_FOR_USERS.at_once_to_host.most:
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await clients.find(APP, ANN)
    await clients.find("https://quick.example/", ANN)
    apps.gate.set()
    await asyncio.gather(*waiting)


async def test_strangers_requests_to_a_host_have_their_own_limit() -> None:
    """The strangers' limit applies across all addresses, doesn't affect users, and ends after a minute."""
    now, apps = [1000.0], Apps()
    clients = ClientApps(apps, PARSER, patience=60, clock=lambda: now[0])
    for number in range(METADATA_FOR_STRANGERS.to_host.most):
        await clients.find(f"{APP}{number}", Asker(f"8.8.{number}.8"))
    with pytest.raises(TooManyRequests):
        await clients.find(APP, STRANGER)
    assert len(apps.asked) == METADATA_FOR_STRANGERS.to_host.most
    await clients.find(APP, ANN)
    now[0] += max(MINUTE, CLIENT_FAILURE)
    await clients.find(APP, STRANGER)


async def test_a_networks_app_requests_per_minute_are_limited() -> None:
    """All addresses of an IPv6 network count together; a user counts wherever they are."""
    now = [1000.0]
    clients = ClientApps(Apps(), PARSER, patience=60, clock=lambda: now[0])
    for number in range(METADATA_FOR_STRANGERS.of_asker.most):
        await clients.find(f"https://app{number}.example/", Asker(f"2600::{number:x}"))
    with pytest.raises(TooManyRequests):
        await clients.find(APP, Asker("2600::ffff"))
    for number in range(METADATA_FOR_USERS.of_asker.most):
        await clients.find(f"https://another{number}.example/", Asker(f"8.8.{number}.8", "ann"))
    with pytest.raises(TooManyRequests):
        await clients.find(APP, Asker("9.9.9.9", "ann"))
    await clients.find(APP, Asker("9.9.9.9", "bob"))


async def test_users_behind_a_silent_proxy_have_own_limits() -> None:
    """All requests come from the proxy's private address; users are counted apart, strangers together."""
    clients = ClientApps(Apps(), PARSER, patience=60, clock=lambda: 1000.0)
    for number in range(METADATA_FOR_USERS.of_asker.most):
        await clients.find(f"https://app{number}.example/", Asker("10.0.0.1", "ann"))
    with pytest.raises(TooManyRequests):
        await clients.find(APP, Asker("10.0.0.1", "ann"))
    await clients.find(APP, Asker("10.0.0.1", "bob"))
