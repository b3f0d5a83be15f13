"""Log lines of requests: few, and without secrets."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from microsub.base.logs import set_up_logs
from microsub.base.plaintext import CONTROLS
from microsub.web import responses
from tests.support.readers import ENDPOINT, Reader
from tests.support.world import World


@pytest.fixture
def lines() -> Any:
    """The log of the test, with the fields bound to its request."""
    capture = LogCapture()
    before = structlog.get_config()["processors"]
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    yield capture.entries
    structlog.configure(processors=before)


async def test_a_success_is_not_logged(alice: Reader, lines: list[dict[str, Any]]) -> None:
    """Thousands per second would hide the other lines."""
    await alice.get(action="channels")
    await alice.post(action="channels", name="x")
    assert lines == []


async def test_a_refused_request_is_one_line(alice: Reader, server: World, lines: list[dict[str, Any]]) -> None:
    """With its request id, and neither token nor parameters."""
    params = {"action": "follow", "channel": "home", "url": "ftp://u:sesame@x/", "access_token": alice.token}
    response = await server.client.post(ENDPOINT, params=params)
    (line,) = lines
    assert line["event"] == "request refused"
    assert line["log_level"] == "info"
    assert (line["status"], line["code"], line["action"]) == (400, "invalid_request", "follow")
    assert line["request_id"] == response.headers["x-request-id"]
    assert "sesame" not in str(line)
    assert alice.token not in str(line)


async def test_a_bug_is_an_error_with_its_traceback(
    alice: Reader, server: World, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply has the request id, with which it can be found."""

    async def broken(*_: Any) -> Any:
        raise KeyError("sesame")

    monkeypatch.setattr(server.redis, "script", broken)
    response = await server.client.get(ENDPOINT, params={"action": "channels"}, headers=alice.headers)
    assert Reader.checked(response, 500)["error"] == "server_error"
    assert "sesame" not in response.text
    (line,) = lines
    assert (line["log_level"], line["event"]) == ("error", "request failed")
    assert isinstance(line["exc_info"], KeyError)
    assert line["request_id"] == response.headers["x-request-id"]


async def test_a_slow_request_is_a_line(
    alice: Reader, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At level info, with its duration."""
    monkeypatch.setattr(responses, "SLOW_SECONDS", -1.0)
    await alice.get(action="channels")
    (line,) = lines
    assert (line["event"], line["action"], line["log_level"]) == ("slow request", "channels", "info")


EVIL = "a\x1b[2J\x9b2J\u202eb\nwarning  forged"
SECRET = "https://feeds.example/f/9a8b7c6d5e4f3a2b1c0d/rss?k=sesame&page=2"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("how", ["value", "event", "nested", "exception", "library", "bound"])
def test_no_line_has_controls_or_secrets_of_addresses(capsys: pytest.CaptureFixture[str], form: str, how: str) -> None:
    """One processor checks every part of the line."""
    set_up_logs(form, "info")
    log = structlog.get_logger("x")
    text = f"{EVIL} {SECRET}"
    try:
        if how == "value":
            log.info("polled", url=text, error=ValueError(text))
        elif how == "event":
            log.info(text)
        elif how == "nested":
            log.info("polled", found=[{"a": (text,)}])
        elif how == "library":
            logging.getLogger("lib").warning("asked %s", text)
        elif how == "bound":
            with structlog.contextvars.bound_contextvars(url=text):
                log.info("polled")
        else:
            log.error("failed", exc_info=RuntimeError(text))
    finally:
        structlog.reset_defaults()
        logging.basicConfig(force=True)
    told = capsys.readouterr().err
    assert "feeds.example/f/***/rss?k=***&page=2" in told
    assert "sesame" not in told
    assert "9a8b7c6d" not in told
    assert not set(CONTROLS.findall(told)) - {"\n"}
    assert how == "exception" or told.count("\n") == 1
