"""The doctor's findings on pages: `tests/data/doctor` contains pages, how each is served, and the findings.

`MICROSUB_WRITE_CASES=1 pytest tests/identity/test_page_check.py` writes the expected side; read the difference before
you keep it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from microsub.base.clock import MINUTE
from microsub.base.errors import InvalidRequest, TooManyRequests
from microsub.fetch import Answered, FetchFailed, Hop, Sending
from microsub.identity.limits import PAGE_CHECKS_IN_ALL, PAGE_CHECKS_OF_NETWORK, PAGE_CHECKS_OF_SITE
from microsub.identity.page_check import PageDoctor
from microsub.identity.page_check.findings import CheckedAgainst, PageReport, user_in
from tests.support import THOROUGH
from tests.support.parsing import PARSER

CASES = sorted((Path(__file__).parents[1] / "data" / "doctor").glob("*.html"))
BASE = "https://reader.example"
DOCUMENT = "/.well-known/oauth-authorization-server"


class Web:
    """Answers by method and URL, without a network; `asked` is the log."""

    def __init__(self, answers: Mapping[tuple[str, str], Answered | FetchFailed]) -> None:
        self.answers = answers
        self.asked: list[Sending] = []

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        self.asked.append(sending)
        found = self.answers.get((sending.method, sending.url))
        return found or FetchFailed(sending.url, "dns", "the host has no address")


class Silence:
    """A sender that never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


def metadata(at: str, **changes: Any) -> bytes:
    document = {
        "issuer": f"{at}/",
        "authorization_endpoint": f"{at}/auth",
        "token_endpoint": f"{at}/token",
        "introspection_endpoint": f"{at}/introspect",
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        **changes,
    }
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


def web_of(served: Mapping[str, Any], body: bytes) -> Web:
    """The page with its environment: a good provider, a feed, http that redirects to https, and the changes of the
    case.
    """
    asked = served.get("asked", "https://alice.example/")
    place, provider = served.get("url", asked), served.get("metadata_at", "https://provider.example")
    hops = tuple(Hop(url, permanent) for url, permanent in served.get("hops", []))
    headers = {"content-type": "text/html; charset=utf-8", **served.get("headers", {})}
    page = Answered(served.get("status", 200), headers, body, place, hops)
    head = served.get("head", {})
    answers: dict[tuple[str, str], Answered | FetchFailed] = {
        ("HEAD", "http://alice.example/"): Answered(200, {}, b"", asked, (Hop(asked, True),)),
        ("GET", provider + DOCUMENT): Answered(
            200, {}, metadata(provider, **served.get("metadata", {})), provider + DOCUMENT
        ),
        ("GET", f"{provider}/auth"): Answered(400, {}, b"", f"{provider}/auth"),
        ("GET", f"{provider}/token"): Answered(401, {}, b"", f"{provider}/token"),
        ("GET", "https://alice.example/feed"): Answered(200, {}, b"<rss/>", "https://alice.example/feed"),
    }
    if not served.get("unreachable"):
        answers["GET", asked] = page
        answers["HEAD", asked] = Answered(
            head.get("status", page.status), head.get("headers", headers), b"", place, hops
        )
    for url, answer in served.get("web", {}).items():
        for method in ("GET", "HEAD"):
            answers[method, url] = Answered(answer["status"], answer.get("headers", {}), b"", url)
    return Web(answers)


async def examined(served: Mapping[str, Any], body: bytes) -> tuple[PageReport, Web]:
    web = web_of(served, body)
    here = CheckedAgainst(**{"base": BASE, **served.get("here", {})})
    doctor = PageDoctor(web, PARSER, private=served.get("private", False), asks_itself=served.get("asks_itself", False))
    return await doctor.examine(served.get("asked", "https://alice.example/"), here), web


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
async def test_findings_have_level_apps_and_correction(case: Path) -> None:
    """Each finding has its level, the affected apps, and a correction; no secret is sent anywhere."""
    expected = case.with_suffix(".json")
    document = json.loads(expected.read_text("utf-8"))
    report, web = await examined(document["served"], case.read_bytes())
    found = {"served": document["served"], "report": report.as_dict()}
    if "MICROSUB_WRITE_CASES" in os.environ:
        expected.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return
    assert found == document
    assert not any(sending.form or sending.bearer or sending.method == "POST" for sending in web.asked)
    itself = any(sending.url.startswith(BASE) for sending in web.asked)
    assert not itself or document["served"].get("asks_itself"), "a server that runs doesn't ask itself"


def typos(body: str, name: str) -> Iterator[str]:
    """The page with one letter missing, or two letters swapped, in one value of this attribute in a line."""
    for match in re.finditer(r'<link rel="(?:indieauth|auth|token|microsub|micropub)[^>]*>', body):
        value = re.search(rf'{name}="([^"]*)"', match[0])
        assert value is not None
        start, end = match.start() + value.start(1), match.start() + value.end(1)
        for at in range(start, end):
            yield body[:at] + body[at + 1 :]
            if at + 1 < end:
                yield body[:at] + body[at + 1] + body[at] + body[at + 2 :]


@pytest.mark.parametrize("name", ["rel", "href"])
@pytest.mark.parametrize("asks_itself", [False, True], ids=["on the page", "from the command line"])
@pytest.mark.parametrize("page", ["complete", "complete-with-own-provider"])
async def test_one_typo_is_one_problem(page: str, asks_itself: bool, name: str) -> None:
    """A typo in a line never causes a second problem, or advice about the same line.

    Tests every fifth typo; `make test-matrix` tests all.
    """
    body = next(path for path in CASES if path.stem == page).read_text()
    own = page.endswith("provider")
    answers: dict[str, Any] = {
        f"{BASE}/auth": {"status": 400},
        f"{BASE}/token": {"status": 401},
    }
    for url in re.findall(rf"{BASE}/microsub/[a-z]*", " ".join([body, *typos(body, "href")])):
        answers[url] = {"status": 401, "headers": {"access-control-allow-origin": "*"}}
    here = {"people": {"alice": "https://alice.example/"}, "everybody": asks_itself}
    served = {"asks_itself": asks_itself, "web": answers, "here": here, **({"metadata_at": BASE} if own else {})}
    good, _ = await examined(served, body.encode())
    assert {one.level for one in good.findings} == {"ok"}
    for mistyped in islice(typos(body, name), 0, None, 1 if THOROUGH else 5):
        report, _ = await examined(served, mistyped.encode())
        said = [one for one in report.findings if one.level != "ok"]
        assert len(said) <= 1, (mistyped, said)


async def test_a_page_is_requested_as_apps_do() -> None:
    """HEAD and GET of the page, and one request for each link; without a server's data nothing is compared."""
    case = next(path for path in CASES if path.stem == "complete")
    _, web = await examined({}, case.read_bytes())
    asked = sorted((sending.method, sending.url) for sending in web.asked)
    assert asked == [
        ("GET", "https://alice.example/"),
        ("GET", "https://alice.example/feed"),
        ("GET", "https://provider.example/.well-known/oauth-authorization-server"),
        ("GET", "https://provider.example/auth"),
        ("GET", "https://provider.example/token"),
        ("HEAD", "http://alice.example/"),
        ("HEAD", "https://alice.example/"),
    ]


async def test_the_command_line_requests_this_server_too() -> None:
    """The server may not be running or reachable there."""
    case = next(path for path in CASES if path.stem == "complete-with-own-provider")
    web = web_of({}, case.read_bytes())
    report = await PageDoctor(web, PARSER, asks_itself=True).examine("https://alice.example/", CheckedAgainst(BASE))
    assert [one.about for one in report.findings if one.level == "problem"] == [
        "indieauth-metadata",
        "authorization_endpoint",
        "token_endpoint",
        "microsub",
    ]


async def test_a_page_without_https_is_not_a_mistyped_name() -> None:
    """An address without a scheme means https."""
    at = "https://alice.example/"
    web = Web({("GET", at): FetchFailed(at, "tls", "TLS failed: WRONG_VERSION_NUMBER")})
    (found,) = (await PageDoctor(web, PARSER).examine("alice.example", CheckedAgainst())).findings
    assert "begins with http://" in found.fix


async def test_a_slow_page_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of a page that never answers ends at the time limit."""
    monkeypatch.setattr("microsub.identity.page_check.SECONDS", 0.01)
    report = await PageDoctor(Silence(), PARSER).examine("alice.example", CheckedAgainst())
    assert [(one.level, one.about) for one in report.findings] == [("problem", "time")]


async def test_an_invalid_address_causes_no_request() -> None:
    """An invalid profile URL causes no request."""
    web = Web({})
    for address in ("", "ftp://alice.example/", "https://alice.example/#me", "https://10.0.0.1/", "two words"):
        with pytest.raises(InvalidRequest):
            await PageDoctor(web, PARSER).examine(address, CheckedAgainst())
    assert not web.asked


async def test_page_checks_per_minute_are_limited() -> None:
    """The limits per minute apply to each client and each site; others aren't affected."""
    now = 0.0
    doctor = PageDoctor(Web({}), PARSER, clock=lambda: now)
    for number in range(PAGE_CHECKS_OF_NETWORK.most):
        await doctor.examine_for("192.0.2.1", f"a{number}.example", CheckedAgainst())
    with pytest.raises(TooManyRequests) as stopped:
        await doctor.examine_for("192.0.2.1", "b.example", CheckedAgainst())
    assert stopped.value.retry_after == MINUTE
    for number in range(PAGE_CHECKS_OF_SITE.most):
        await doctor.examine_for(f"198.51.100.{number}", "https://busy.example/", CheckedAgainst())
    for _ in range(PAGE_CHECKS_OF_NETWORK.most):  # not counted, because nothing was checked
        with pytest.raises(TooManyRequests, match=r"busy\.example"):
            await doctor.examine_for("192.0.2.2", "http://www.busy.example/other", CheckedAgainst())
    await doctor.examine_for("192.0.2.2", "c.example", CheckedAgainst())
    now = MINUTE
    await doctor.examine_for("192.0.2.1", "busy.example", CheckedAgainst())


async def test_a_few_pages_are_checked_at_once() -> None:
    """A client that comes while all places are taken is refused, and doesn't take one."""
    silence = Silence()
    doctor = PageDoctor(silence, PARSER)
    under_way = [
        asyncio.create_task(doctor.examine_for(f"192.0.2.{number}", f"a{number}.example", CheckedAgainst()))
        for number in range(PAGE_CHECKS_IN_ALL.most)
    ]
    while silence.asked < 3 * PAGE_CHECKS_IN_ALL.most:
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests, match="right now"):
        await doctor.examine_for("198.51.100.1", "late.example", CheckedAgainst())
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    task = asyncio.create_task(doctor.examine_for("198.51.100.1", "late.example", CheckedAgainst()))
    while silence.asked < 3 * PAGE_CHECKS_IN_ALL.most + 3:
        await asyncio.sleep(0)
    task.cancel()


@pytest.mark.parametrize(
    ("endpoint", "user"),
    [
        ("https://reader.example/at/microsub/alice", "alice"),
        ("https://reader.example/at/microsub/alice/", "alice"),
        ("https://reader.example/at/microsub", ""),
        ("https://reader.example/at/microsub/a/b", None),
        ("https://reader.example/at/micropub", None),
        ("https://reader.example/microsub/alice", None),
        ("https://other.example/at/microsub/alice", None),
    ],
)
def test_an_endpoint_names_its_user(endpoint: str, user: str | None) -> None:
    """This also works if the server is below a path."""
    assert user_in(endpoint, "https://reader.example/at") == user
