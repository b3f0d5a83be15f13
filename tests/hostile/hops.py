"""Redirects, names and certificates: the server that a request finally reaches."""

from __future__ import annotations

from tests.hostile.bodies import GOOD, XML, sends
from tests.hostile.case import Case, Check, Outcome
from tests.hostile.publisher import Act, Asked
from tests.hostile.replies import gone


def to(location: str, status: str = "302 Found") -> Act:
    async def act(visit: Asked) -> None:
        await visit.redirect(location.replace("PORT", str(visit.port)), status)

    return act


async def on_and_on(visit: Asked) -> None:
    """A redirect to a new address each time."""
    await visit.redirect(f"/feed?{visit.number}{len(visit.target)}")


def chain(length: int, status: str, end: str = "/end") -> dict[str, Act]:
    """`length` redirects, each to another host."""
    names = ["/feed", *[f"/hop{number}" for number in range(1, length)]]
    targets = [*[f"http://hop{number}.test:PORT/hop{number}" for number in range(1, length)], end]
    return {name: to(target, status) for name, target in zip(names, targets, strict=True)}


def only(*paths: str) -> Check:
    """Checks that exactly these paths were requested."""

    def check(outcome: Outcome) -> None:
        assert {visit.target for visit in outcome.site.asked if visit.target != "/good"} == set(paths)

    return check


async def credentials(visit: Asked) -> None:
    if visit.number == 1:
        await visit.redirect(visit.here("/feed", "thief.test"))
    else:
        await visit.reply(GOOD, XML)


def kept_the_secret(outcome: Outcome) -> None:
    first, second = outcome.site.asked[:2] if outcome.site.asked[1].target == "/feed" else outcome.site.to("/feed")
    assert "authorization" in first.headers
    assert "authorization" not in second.headers


def chained(length: int, status: str, end: str, health: str = "", says: str = "", **more: object) -> Case:
    acts = chain(length, status, end)
    return Case(acts["/feed"], health, says, paths={**acts, "/end": sends(GOOD, XML), "/gone": gone}, **more)  # type: ignore[arg-type]


INSIDE = {
    "loopback": "http://127.0.0.2:PORT/secret",
    "ten": "http://10.0.0.1/secret",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "cgnat": "http://100.64.0.1/secret",
    "multicast": "http://224.0.0.1/secret",
    "ipv6": "http://[::1]:PORT/secret",
    "mapped": "http://[::ffff:10.0.0.1]/secret",
    "nat64": "http://[64:ff9b::a00:1]/secret",
    "by-name": "http://private.test:PORT/secret",
    "by-mapped-name": "http://mapped.test:PORT/secret",
    "unspecified": "http://0.0.0.0:PORT/secret",
}

CASES = {
    "redirect-to-itself": Case(to("/feed"), "redirects"),
    "redirects-between-two": Case(
        to("http://b.test:PORT/b"), "redirects", paths={"/b": to("http://hostile.test:PORT/feed")}
    ),
    "redirects-without-end": Case(on_and_on, "redirects"),
    **{
        f"redirect-inside-{name}": Case(to(target), "dns" if ".test" in target else "blocked", check=only("/feed"))
        for name, target in INSIDE.items()
    },
    **{
        f"redirect-inside-at-hop-{hop}": chained(
            hop, "301 Moved Permanently", "http://127.0.0.2:PORT/secret", "blocked"
        )
        for hop in (2, 3, 4, 5)
    },
    "301-chain-of-five": chained(5, "301 Moved Permanently", "http://last.test:PORT/end", posts=3, polls=2),
    "301-chain-of-six": chained(6, "301 Moved Permanently", "/end", "redirects"),
    "410-behind-a-302": chained(1, "302 Found", "/gone", "http", "410"),
    "410-behind-a-301": chained(1, "301 Moved Permanently", "/gone", "gone", wait=None),
    "redirect-to-a-file": Case(to("file:///etc/passwd"), "bad_url"),
    "redirect-to-ftp": Case(to("ftp://127.0.0.1/x"), "bad_url"),
    "redirect-to-data": Case(to("data:text/xml,<rss/>"), "bad_url"),
    "redirect-to-nonsense": Case(to("http://[::::]:99999/%%%"), "bad_url"),
    "redirect-to-a-long-address": Case(to("/" + "x" * 50_000), "bad_url"),
    "redirect-with-a-line-break": Case(to("/a%0d%0aSet-Cookie:x"), "parse"),
    "redirect-without-a-target": Case(to(""), "http"),
    "redirect-that-begs-for-the-password": Case(
        credentials, posts=3, host="me:secret@hostile.test", check=kept_the_secret
    ),
    "a-name-that-is-inside": Case(sends(GOOD, XML), "dns", host="private.test", check=only()),
    "a-name-mapped-inside": Case(sends(GOOD, XML), "dns", host="mapped.test", check=only()),
    "a-name-that-rebinds": Case(to("/secret"), "dns", host="rebind.test", check=only("/feed")),
    "a-name-that-nobody-knows": Case(sends(GOOD, XML), "dns", host="nowhere.test"),
    "a-name-server-that-says-nothing": Case(sends(GOOD, XML), "timeout", host="silent.test", brief=True),
    "a-name-server-that-talks-nonsense": Case(sends(GOOD, XML), "dns", host="junk.test"),
    "a-name-with-twenty-thousand-addresses": Case(sends(GOOD, XML), "dns", host="crowd.test"),
    "a-certificate-of-a-stranger": Case(
        sends(GOOD, XML), "tls", host="stranger.test", certificate="stranger", check=only()
    ),
    "a-certificate-for-another-name": Case(
        sends(GOOD, XML), "tls", host="other.test", certificate="trusted", check=only()
    ),
    "a-certificate-of-yesterday": Case(
        sends(GOOD, XML), "tls", "expired", host="expired.test", certificate="expired", check=only()
    ),
    "a-good-certificate": Case(sends(GOOD, XML), posts=3, host="trusted.test", certificate="trusted"),
    "tls-with-a-server-that-has-none": Case(
        sends(GOOD, XML), "t", host="plain.test", tls=True, check=only(), brief=True
    ),
}
