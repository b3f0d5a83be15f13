"""The suite of the Google Reader API: it passes a good server, and each broken one fails exactly its requirement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event, Thread

import httpx
import pytest
from click.testing import CliRunner

from microsub.cli import main
from microsub_conformance.checks import NATIVE_REQUIREMENTS, pick
from microsub_conformance.command import conformance
from microsub_conformance.native.world import NativeWorld
from microsub_conformance.report import as_text
from microsub_conformance.runner import CouldNotRun, Target, run
from tests.conformance.greader_variants import BROKEN
from tests.conformance.reference_greader import AUTH, PASSWORD, USER, NativeServer
from tests.conformance.reference_server import serving
from tests.support import THOROUGH


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the stand-in depends on how many posts there are."""
    monkeypatch.setattr(NativeWorld, "page", 16)
    monkeypatch.setattr(NativeWorld, "named", 500)


@contextmanager
def stand_in(server: NativeServer) -> Iterator[Target]:
    """The stand-in as the suite's target."""
    with serving(server) as target:
        address = target.endpoint.replace("/microsub", "/api/greader.php")
        yield replace(target, endpoint=address, user=USER, token=PASSWORD)


def test_a_good_server_passes_everything() -> None:
    """Nothing is skipped, and the account is left without the suite's feeds and folders."""
    server = NativeServer()
    with stand_in(server) as target:
        results = run(target, NATIVE_REQUIREMENTS)
    assert [(one.requirement.id, one.reason) for one in results if one.verdict != "pass"] == []
    assert (server.followed(), server.folders) == ([], ["Mine"])
    assert not any(entry.is_starred for entry in server.by_number.values())


@contextmanager
def polling(server: NativeServer) -> Iterator[None]:
    """The server fetches the feed that the suite edits again and again."""
    ended = Event()

    def poll() -> None:
        while not ended.wait(0.1):
            for feed in list(server.feeds.values()):
                if feed.url.endswith("edited") and feed.folder:
                    server.poll(feed)

    thread = Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


NAMES = list(BROKEN)
GROUPS = [NAMES[first::step] for step in (14, 15) for first in range(step)]
"""Each variant is in two groups, and no other one is in both of them; a run takes a second of processor time."""


@pytest.mark.parametrize("group", [[name] for name in NAMES] if THOROUGH else GROUPS, ids="+".join)
def test_broken_variants_fail_exactly_their_requirements(group: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No other requirement depends on the behaviour that is broken. Without HTTP in between, which takes long.

    A server is broken in several ways at once, and `make test-matrix` breaks it in one way at a time.
    """
    server = type("Broken", tuple(BROKEN[name] for name in group), {})()
    transport = httpx.MockTransport(server.handle)
    monkeypatch.setattr("microsub_conformance.client.httpx.Client", partial(httpx.Client, transport=transport))
    with polling(server):
        target = Target("http://stand-in.test/api/greader.php", PASSWORD, user=USER, patience=3)
        results = run(target, NATIVE_REQUIREMENTS)
    server.http.close()
    assert {one.requirement.id: one.verdict for one in results if one.verdict != "pass"} == dict.fromkeys(
        group, "fail"
    ), as_text("the variant", [one for one in results if one.verdict != "pass"])


def test_each_requirement_has_a_broken_variant() -> None:
    """Also each is described completely: the apps that need it, and the file of each where that is seen."""
    assert {one.id for one in NATIVE_REQUIREMENTS} == set(BROKEN)
    for one in NATIVE_REQUIREMENTS:
        assert one.title.endswith("."), one.id
        assert one.group == "design" or len(one.apps) == len(one.reference.split("; ")), one.id


def test_the_report_names_the_apps_that_will_fail() -> None:
    """With what each of them relies on; secrets are masked."""
    with stand_in(BROKEN["ids.sixteen-digits"]()) as target:
        arguments = ["--greader", target.endpoint, "--user", USER, "--password", PASSWORD, "--only", "ids"]
        shown = CliRunner().invoke(conformance, [*arguments, "--only", "sign-in"])
    assert shown.exit_code == 1, shown.output
    assert "\nReadrops will fail: ids.sixteen-digits\n" in shown.output
    assert "readrops/Readrops: api/src/main" in shown.output
    assert PASSWORD not in shown.output
    assert AUTH not in shown.output


def test_the_servers_command_runs_the_suite() -> None:
    """`microsub conformance` passes its arguments on as they are, and ends with the suite's exit code."""
    with stand_in(BROKEN["ids.sixteen-digits"]()) as target:
        account = ["conformance", "--greader", target.endpoint, "--user", USER, "--password", PASSWORD, "--only"]
        failed, passed = (CliRunner().invoke(main, [*account, only]) for only in ("ids", "sign-in.lines"))
    assert (failed.exit_code, passed.exit_code) == (1, 0), failed.output + passed.output
    assert "\nReadrops will fail: ids.sixteen-digits\n" in failed.output
    for line in (
        "--help",
        "--greader x --list",
        "--list -- --only",
        "--greader",
        "--greader http://127.0.0.1:1 --user a",
    ):
        own = CliRunner().invoke(conformance, line.split(), prog_name="microsub conformance")
        shown = CliRunner().invoke(main, ["conformance", *line.split()])
        assert (shown.exit_code, shown.output) == (own.exit_code, own.output)
        assert own.output


def test_requirements_of_one_app() -> None:
    """`--source client:NAME` selects what an app relies on, also beside others."""
    shown = CliRunner().invoke(conformance, ["--greader", "x", "--list", "--source", "client:Newsboat"])
    assert "marks.ok" in shown.output
    assert "fields.canonical" in shown.output
    assert "ids.sixteen-digits" not in shown.output


def test_without_a_server_or_with_a_wrong_password_nothing_is_judged() -> None:
    """The command says which; without user or password it explains itself."""
    with stand_in(NativeServer()) as target:
        for hopeless in (replace(target, endpoint="http://127.0.0.1:1"), replace(target, token="wrong")):
            with pytest.raises(CouldNotRun):
                run(hopeless, pick(["ids"], requirements=NATIVE_REQUIREMENTS))
    assert CliRunner().invoke(conformance, ["--greader", "http://127.0.0.1:1", "--user", USER]).exit_code == 2
