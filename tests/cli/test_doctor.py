"""`microsub doctor`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.web import Answer, Publisher, publisher

PAGE = """<!doctype html><title>Alice</title>
<link rel="authorization_endpoint" href="/auth"><link rel="token_endpoint" href="/token">
<link rel="microsub" href="/microsub"><link rel="micropub" href="/micropub">
<link rel="alternate" type="application/rss+xml" href="/feed">"""


@pytest.fixture
def site() -> Iterator[Publisher]:
    """A publisher on an event loop of its own, because each command runs one."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[Publisher] = []

    async def serve() -> None:
        async with publisher() as running:
            found.append(running)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    assert ready.wait(60)
    yield found[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


@pytest.fixture(autouse=True)
def _empty(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is empty; loopback may be requested."""
    Path("backend.json").unlink()
    monkeypatch.setenv("MICROSUB_ALLOW_PRIVATE_NETWORKS", "127.0.0.0/8")


def serve_all(site: Publisher) -> str:
    """A page with all its endpoints; its URL."""
    site.serve("/auth", Answer(status=400))
    site.serve("/token", Answer(status=401))
    site.serve("/microsub", Answer(status=401, headers=[("Access-Control-Allow-Origin", "*")]))
    site.serve("/feed", Answer(b"<rss/>"))
    return site.serve("/", Answer(PAGE.encode(), headers=[("Content-Type", "text/html")]))


def test_a_page_that_has_everything(run: Run, site: Publisher, tmp_path: Path) -> None:
    """Exit code 0, a line for each check, and no server data is created in an empty folder."""
    result = run("doctor", serve_all(site))
    assert result.exit_code == 0, result.output
    assert f"ok       token_endpoint: {site.url('/token')} responds" in result.stdout
    assert "Everything is set up; 1 piece of advice." in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_page_that_has_nothing(run: Run, site: Publisher) -> None:
    """Exit code 1; the problem, how to correct it, and who is affected."""
    url = site.serve("/", Answer(b"<p>Hello", headers=[("Content-Type", "text/html")]))
    result = run("doctor", url, "--base-url", "https://reader.example")
    assert result.exit_code == 1
    assert "problem  microsub: the page doesn't say where you read" in result.stdout
    assert '<link rel="microsub" href="https://reader.example/microsub/YOUR-NAME">' in result.stdout
    assert "concerns all apps" in result.stdout
    assert result.stdout.endswith("Fix 2 problems so that apps can sign you in.\n")


def test_for_programs(run: Run, site: Publisher) -> None:
    """JSON, and the same exit code."""
    serve_all(site)
    site.serve("/token", Answer(status=404))
    result = run("doctor", site.url(), "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["complete"], report["url"]) == (1, False, site.url())
    (problem,) = [one for one in report["findings"] if one["level"] == "problem"]
    assert problem["about"] == "token_endpoint"
    assert problem["fix"]


def test_an_invalid_address(run: Run) -> None:
    """One line says what was expected."""
    result = run("doctor", "ftp://alice.example/")
    assert result.exit_code == 1
    assert "expected a profile URL" in result.stderr


def test_the_page_is_compared_with_the_users(run: Run, site: Publisher, redis_url: str, tmp_path: Path) -> None:
    """With the data of a server: the page's endpoint is that of a user here, who has another address."""
    url = serve_all(site)
    page = PAGE.replace('href="/microsub"', f'href="{site.url("/microsub/alice")}"')
    site.serve("/", Answer(page.encode(), headers=[("Content-Type", "text/html")]))
    site.serve("/microsub/alice", Answer(status=401, headers=[("Access-Control-Allow-Origin", "*")]))
    backend = {"users": {"alice": {"me": "https://alice.example/", "channels": []}}}
    (tmp_path / "backend.json").write_text(json.dumps(backend))
    base = ("--base-url", site.url("").rstrip("/"), "--redis-url", redis_url)
    unknown = run("doctor", url, *base)
    assert "there is no user alice here" in unknown.stdout
    assert run("token", "create", "alice", "--redis-url", redis_url).exit_code == 0
    other = run("doctor", url, *base)
    assert other.exit_code == 1
    assert "the address of the user alice here is https://alice.example/" in " ".join(other.stdout.split())
