"""One request at a time per host, with a pause between two."""

from __future__ import annotations

import asyncio

from microsub.fetch import FetchFailed, FetchRequest, FetchResult, HostPace, RestingServers, SpacedFetcher, spacing


class Hosts:
    """A fetcher that records the time of each request; replies take `seconds` on a clock of its own."""

    def __init__(self, seconds: float = 2.0) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.asked: list[tuple[float, str]] = []
        self.open: list[str] = []

    async def fetch(self, request: FetchRequest) -> FetchResult:
        host = request.url.split("/")[2]
        assert host not in self.open
        self.asked.append((self.now, request.url))
        self.open.append(host)
        await asyncio.sleep(0)
        self.now += self.seconds
        self.open.remove(host)
        return FetchFailed(request.url, "connect", "nobody is there")

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def spaced(hosts: Hosts, interval: float = 1.0) -> SpacedFetcher:
    pace = HostPace(at_once=1, interval=0.0, pause=interval, patience=None, sleep=hosts.sleep, clock=lambda: hosts.now)
    return SpacedFetcher(hosts, pace)


async def test_requests_to_a_host_are_made_one_at_a_time() -> None:
    """The pause begins with the reply; a pause also precedes the first request."""
    hosts = Hosts()
    fetcher = spaced(hosts)
    await asyncio.gather(*(fetcher.fetch(FetchRequest(f"https://a.example/{n}")) for n in range(3)))
    assert hosts.asked == [(1.0, "https://a.example/0"), (4.0, "https://a.example/1"), (7.0, "https://a.example/2")]


async def test_a_request_that_would_wait_too_long_for_its_host_fails_at_once() -> None:
    """Its failure names the time, without the secrets of the address."""
    hosts = Hosts()
    pace = HostPace(at_once=1, interval=5.0, burst=1, patience=8.0, sleep=hosts.sleep, clock=lambda: 0.0)
    fetcher = SpacedFetcher(hosts, pace)
    found = [await fetcher.fetch(FetchRequest(f"https://ann:pw@a.example/{number}")) for number in range(3)]
    assert len(hosts.asked) == 2
    late = found[2]
    assert isinstance(late, FetchFailed)
    assert (late.reason, late.retry_after, "pw@" in late.url) == ("busy", 10, False)


async def test_hosts_do_not_wait_for_each_other() -> None:
    """Requests to two hosts run at the same time."""
    hosts = Hosts()
    fetcher = spaced(hosts, 0.0)
    await asyncio.gather(*(fetcher.fetch(FetchRequest(f"https://{name}.example/")) for name in "ab"))
    assert [when for when, _ in hosts.asked] == [0.0, 0.0]


async def test_hosts_are_forgotten(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Memory use doesn't grow with the number of hosts; a host is remembered during its pause."""
    monkeypatch.setattr(spacing, "_MANY_HOSTS", 3)
    hosts = Hosts()
    fetcher = spaced(hosts, 10.0)
    for number in range(12):
        await fetcher.fetch(FetchRequest(f"https://{number}.example/"))
        assert len(fetcher._pace._hosts) <= 6
    await fetcher.fetch(FetchRequest("https://11.example/again"))
    assert hosts.asked[-1][0] == hosts.asked[-2][0] + 12.0


def test_spacing_counts_by_host_and_port() -> None:
    """A missing port means the scheme's default; other ports of the host are other servers."""
    resting = RestingServers(lambda: 0.0)
    resting.rest("https://push.example/a")
    assert resting.left("https://Push.example:443/b") == resting.left("https://push.example:0443/") == spacing.REST
    assert not resting.left("https://push.example:8443/a")
    assert not resting.left("http://push.example/a")
