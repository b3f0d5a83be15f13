"""What apps say of themselves, where they are asked."""

from __future__ import annotations

import pytest

from microsub.fetch import Answered, FetchFailed, Hop, Sending
from microsub.services.identity.clients import Clients

APP = "https://app.example/"
PAGE = b'<div class="h-app"><a href="https://app.example/" class="u-url p-name">Example App</a></div>'


class Web:
    """One page, behind redirects."""

    def __init__(self, *hops: str) -> None:
        self.hops = hops

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        there = (sending.url, *self.hops)[-1]
        hops = tuple(Hop(hop, permanent=False) for hop in self.hops)
        return Answered(200, {"content-type": "text/html"}, PAGE, there, hops)


async def test_a_redirect_on_the_own_origin_is_followed() -> None:
    """The app's name is found there."""
    assert (await Clients(Web("https://app.example/about")).find(APP)).info.name == "Example App"


@pytest.mark.parametrize(
    "hops",
    [
        ["https://evil.example/"],
        ["https://evil.example/", "https://app.example/"],
        ["http://app.example/"],
        ["https://app.example:8443/"],
        ["https://app.example/a/%2e%2e/b"],
        ["https://0x7f.1/"],
    ],
)
async def test_an_open_redirect_lends_nobody_the_apps_name(hops: list[str]) -> None:
    """Neither elsewhere, nor over elsewhere, nor to what can't be read; the app has its identifier alone then."""
    found = await Clients(Web(*hops)).find(APP)
    assert (found.info.id, found.info.name, found.answered) == (APP, None, False)
