"""The suite itself: it passes a good server, cleans up, reports in three formats, and runs as a command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from click.testing import CliRunner
from click.testing import Result as Invoked

from microsub_conformance.checks import REQUIREMENTS, pick
from microsub_conformance.command import conformance
from microsub_conformance.exchange import mask
from microsub_conformance.report import exit_code
from microsub_conformance.runner import CouldNotRun, Target, run
from microsub_conformance.site.publisher import FeedServer, PublishedDocument
from microsub_conformance.verdict import Result, Violation
from tests.conformance.reference_server import Server, serving
from tests.conformance.variants import OtherHeaders


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def target(server: Server) -> Iterator[Target]:
    with serving(server) as target:
        yield target


def _invoke(target: Target, *more: str) -> Invoked:
    return CliRunner().invoke(conformance, ["--endpoint", target.endpoint, "--token", target.token, *more])


def test_a_good_server_passes_everything(target: Target) -> None:
    """Nothing fails against the reference server, and only features that it lacks are skipped."""
    results = run(target, REQUIREMENTS)
    assert [(result.requirement.id, result.reason) for result in results if result.verdict in {"fail", "error"}] == []
    assert [result.requirement.id for result in results if result.verdict == "skipped"] == [
        "search.items",
        "search.items-elsewhere",
    ]


def test_a_run_cleans_up_and_can_be_repeated(server: Server, target: Target) -> None:
    """After a run, channels, feeds and rules are as before, and a second run gives the same verdicts."""
    chosen = pick(
        ["channels.create*", "muting.global", "blocking.global", "isolation.rules", "revisions.edit*", "reading.last*"]
    )
    mine = server.model.create(server.model.user("alice"), "My own")
    first = [(result.requirement.id, result.verdict) for result in run(target, chosen)]
    for user in server.model.users.values():
        assert list(user.channels) == ["notifications", "saved"] + ([mine.uid] if user.name == "alice" else [])
        assert user.rules == {"mute": [], "block": []}
        assert not any(channel.feeds or channel.read for channel in user.channels.values())
    second = [(result.requirement.id, result.verdict) for result in run(target, chosen)]
    assert first == second == [(requirement.id, "pass") for requirement in chosen]


def test_channels_of_a_killed_run_are_removed_by_the_next(server: Server, target: Target) -> None:
    """A killed run leaves channels in both accounts; the next run deletes these and nothing else."""
    users = [server.model.user("alice"), server.model.user("bob")]
    for user in users:
        server.model.create(user, "Conformance run0a1b2c3d 7 renamed")
        server.model.create(user, "Conformance runs of mine")
    run(target, pick(["channels.list"]))
    for user in users:
        assert [channel.name for channel in user.channels.values()][2:] == ["Conformance runs of mine"]


def test_requirements_are_described_completely() -> None:
    """Ids are unique, and each requirement has a title that is a sentence, a source and a reference."""
    assert len({requirement.id for requirement in REQUIREMENTS}) == len(REQUIREMENTS)
    for requirement in REQUIREMENTS:
        assert requirement.title.endswith("."), requirement.id
        assert requirement.group in {"spec", "client", "design"}, requirement.id
        assert requirement.reference, requirement.id
        assert requirement.group != "client" or requirement.source.partition(":")[2], requirement.id


def test_without_a_second_user_isolation_is_skipped(target: Target) -> None:
    """Requirements that need a second user, a read-only token or the user's endpoint are skipped with that reason."""
    alone = Target(target.endpoint, target.token)
    results = run(alone, pick(["isolation.global", "scopes.read", "transport.user-endpoint"]))
    assert [(result.verdict, result.reason) for result in results] == [
        ("skipped", "needs user endpoint"),
        ("skipped", "needs second user"),
        ("skipped", "needs read token"),
    ]
    assert exit_code(results) == 0


def test_a_server_that_never_polls_again_is_not_blamed(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a poll command, requirements of a second poll are skipped after one wait for `patience`."""
    waits: list[bool] = []
    wait = FeedServer.wait_for_visit
    monkeypatch.setattr(FeedServer, "wait_for_visit", lambda *about: waits.append(wait(*about)) or waits[-1])
    results = run(replace(target, poll_command=(), patience=0.3), pick(["revisions"]))
    assert {result.verdict for result in results} == {"skipped"}
    assert "--poll-command" in results[0].reason
    assert waits.count(False) == 1


def test_a_situation_that_can_not_be_made_is_an_error(target: Target) -> None:
    """If the poll command fails, the requirements can't be judged, and the run doesn't pass."""
    failing = replace(target, poll_command=(sys.executable, "-c", "raise SystemExit('no such feed')"))
    results = run(failing, pick(["revisions.edit", "revisions.new-post"]))
    assert [result.verdict for result in results] == ["error", "error"]
    assert "no such feed" in results[0].reason
    assert exit_code(results) == 1


@pytest.mark.usefixtures("virtual_time")
def test_waits_for_a_server_without_deliveries_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits become short after several have timed out."""
    monkeypatch.setattr("microsub_conformance.bench.SHORT_PATIENCE", 0.1)
    server = Server()
    monkeypatch.setattr(server, "poll", lambda feed: None)
    with serving(server) as target:
        results = run(replace(target, patience=0.5), pick(["reading"]))
    assert {result.verdict for result in results} == {"fail"}
    waits = [result.reason.partition(" within ")[2] for result in results]
    assert waits == ["0.5 seconds"] * 3 + ["0.1 seconds"] * (len(waits) - 3)


def test_text_report_groups_by_source_and_shows_the_exchange(target: Target) -> None:
    """The text report groups requirements by spec, apps and design, and shows request and reply of failures."""
    with serving(OtherHeaders()) as broken:
        shown = _invoke(broken, "--only", "replies", "--only", "tokens.header")
    assert shown.exit_code == 1
    text = shown.output
    assert "From the Microsub spec: 1 passed" in text
    assert text.index("From the Microsub spec") < text.index("From reader apps") < text.index("From the design")
    assert "FAIL replies.content-type: The Content-Type of a success is exactly application/json." in text
    assert "found     application/json; charset=utf-8" in text
    assert "GET http://127.0.0.1" in text


def test_json_report_has_requests_and_replies(target: Target) -> None:
    """Each requirement in the JSON report has verdict, source, expectation and exchanges, without the token."""
    shown = _invoke(target, "--only", "timeline.limit", "--format", "json")
    report: dict[str, Any] = json.loads(shown.output)
    assert (shown.exit_code, report["summary"]["pass"]) == (0, 1)
    (requirement,) = report["requirements"]
    assert requirement["id"] == "timeline.limit"
    assert requirement["reference"].startswith("API reference")
    assert requirement["expected"] == "'limit' sets the number of items on a page."
    exchange = requirement["exchanges"][-1]
    assert (exchange["method"], exchange["status"]) == ("GET", 200)
    assert exchange["request_headers"]["authorization"] == "Bearer …"


@pytest.mark.parametrize("form", ["text", "json", "junit"])
def test_no_report_shows_a_token(target: Target, form: str) -> None:
    """Tokens are masked in headers, queries and forms."""
    chosen = ["--only", "tokens", "--only", "transport.foreign-user-endpoint", "--format", form]
    shown = _invoke(target, "--second-token", "bob.full", "--user-endpoint", f"{target.endpoint}/bob", *chosen)
    assert shown.exit_code == 1
    assert "alice.full" not in shown.output
    assert "bob.full" not in shown.output


def test_junit_report_is_xml_with_a_suite_for_each_source(tmp_path: Path) -> None:
    """JUnit XML counts failures and names every case; it is written to the named file."""
    file = tmp_path / "report.xml"
    with serving(OtherHeaders()) as broken:
        shown = _invoke(
            broken, "--only", "replies", "--only", "scopes.read", "--format", "junit", "--output", str(file)
        )
    assert (shown.exit_code, "3 fail" in shown.output) == (1, True)
    root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    suites = {suite.attrib["name"].split(",")[0]: suite.attrib for suite in root}
    assert suites["From reader apps"]["failures"] == "2"
    assert suites["From the design of microsub-server"]["skipped"] == "1"
    failed = [case.attrib["name"] for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["content-type", "no-store", "error-content-type"]


def test_list_names_all_requirements() -> None:
    """`--list` needs no server."""
    shown = CliRunner().invoke(conformance, ["--list"])
    assert shown.exit_code == 0
    assert all(requirement.id in shown.output for requirement in REQUIREMENTS)


def test_picking_by_pattern_source_and_level() -> None:
    """`--only` takes ids, patterns and chapters; `--source` takes groups and clients."""
    assert {requirement.id for requirement in pick(["tokens", "paging.walk", "*.content-type"])} >= {
        "tokens.query", "paging.walk", "replies.content-type",
    }  # fmt: skip
    assert {requirement.group for requirement in pick(sources=["spec"])} == {"spec"}
    assert {requirement.source for requirement in pick(sources=["client:ek"])} == {"client:ek", "client:Monocle, ek"}
    assert {requirement.level for requirement in pick(must_only=True)} == {"must"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--endpoint", "http://127.0.0.1:1/"],
        ["--only", "nothing-like-this"],
        ["--list", "--patience", "nan"],
        ["--list", "--patience", "inf"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    """Without endpoint and token, with a pattern that matches nothing, or without a limit of time."""
    assert CliRunner().invoke(conformance, arguments).exit_code == 2


def test_no_server_or_no_valid_token_exits_with_2(target: Target) -> None:
    """A server that can't be reached or that refuses the token isn't judged."""
    unreachable = replace(target, endpoint="http://127.0.0.1:1/microsub")
    for hopeless in (unreachable, replace(target, token="alice.wrong"), replace(target, listen=("192.0.2.1", 0))):
        with pytest.raises(CouldNotRun):
            run(hopeless, REQUIREMENTS)
    shown = _invoke(unreachable)
    assert (shown.exit_code, "can't be reached" in shown.output) == (2, True)


@pytest.mark.parametrize("path", ["/", "/other"])
def test_a_wrong_endpoint_is_noticed_at_once(target: Target, path: str) -> None:
    """An address that answers but isn't an endpoint isn't judged; the message says where pages name their endpoints."""
    with pytest.raises(CouldNotRun, match="isn't a Microsub endpoint"):
        run(replace(target, endpoint=target.endpoint.replace("/microsub", path)), REQUIREMENTS)


def test_the_exit_code_is_that_of_the_specification(target: Target) -> None:
    """Failures of requirements from apps and our design are reported, but count only if selected or with `--strict`."""
    failing = [
        Result(requirement, "pass" if requirement.group == "spec" else "fail", 0.0) for requirement in REQUIREMENTS
    ]
    assert (exit_code(failing, spec_only=True), exit_code(failing)) == (0, 1)


def test_a_missing_header_is_reported_as_missing() -> None:
    """The report shows a missing value as `nothing`."""
    assert Violation("a header", "").found == "nothing"
    assert Violation("no items", 0).found == "0"


@pytest.mark.parametrize("token", ["t", "home", "action"])
def test_a_short_token_is_masked_only_as_a_token(token: str) -> None:
    """A short token isn't masked inside other words, so that reports stay readable."""
    text = f'GET http://127.0.0.1/?action=channels&access_token={token} {{"uid": "home"}} Bearer {token}'
    assert mask(text, token) == 'GET http://127.0.0.1/?action=channels&access_token=… {"uid": "home"} Bearer …'


def test_a_long_token_is_masked_wherever_it_is_echoed() -> None:
    """A long token is masked wherever it is a whole word."""
    assert mask('{"error": "alice.secret is invalid", "x": "malice.secrets"}', "alice.secret") == (
        '{"error": "… is invalid", "x": "malice.secrets"}'
    )


def test_the_suite_imports_nothing_of_the_server() -> None:
    """It is a distribution of its own, which can be installed without the server."""
    script = "import microsub_conformance.command, sys; print([n for n in sys.modules if n.startswith('microsub')])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert all(name.startswith("microsub_conformance") for name in eval(loaded))


def test_feeds_are_published_under_the_feed_host(target: Target) -> None:
    """The feed host appears in the URLs; the suite listens at the configured address."""
    reached = replace(target, listen=("127.0.0.1", 0), feed_host="localhost")
    assert [result.verdict for result in run(reached, pick(["following.fetched", "items.absolute"]))] == ["pass"] * 2


def test_a_visit_is_logged_and_answered_conditionally() -> None:
    """The publisher answers 304 to a request with the document's ETag, and logs both requests."""
    with FeedServer() as publisher:
        url = publisher.put("/feed", PublishedDocument("text/plain", b"one"))
        first = httpx.get(url, trust_env=False, timeout=60)
        second = httpx.get(url, headers={"If-None-Match": first.headers["etag"]}, trust_env=False, timeout=60)
        publisher.put("/feed", PublishedDocument("text/plain", b"two"))
        third = httpx.get(url, headers={"If-None-Match": first.headers["etag"]}, trust_env=False, timeout=60)
        assert (first.text, second.status_code, third.text) == ("one", 304, "two")
        assert httpx.get(f"{publisher.base}/nothing", trust_env=False, timeout=60).status_code == 404
        assert [visit.status for visit in publisher.visits("/feed")] == [200, 304, 200]
        assert not publisher.wait_for_visit("/feed", 3, 0.01)
        assert publisher.wait_for_visit("/feed", 2, 0.01)
