"""The format of the log, and the limit on repeated lines."""

from __future__ import annotations

import json
import logging
import re

import pytest
import structlog

from microsub.base import logs
from microsub.base.logs import Repeats, set_up_logs


def test_a_line_for_programs_begins_with_time_level_and_event(capsys: pytest.CaptureFixture[str]) -> None:
    """So `journalctl` shows the most important fields first; lines of libraries have the same form."""
    set_up_logs("json", "info")
    structlog.get_logger().warning("feed could not be polled", feed="7", detail="no answer")
    logging.getLogger("library").error("broken")
    ours, theirs = map(json.loads, capsys.readouterr().err.splitlines())
    assert list(ours) == ["time", "level", "event", "feed", "detail"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", ours["time"])
    assert list(theirs)[:3] == ["time", "level", "event"]
    assert theirs["event"] == "broken"


def test_a_line_for_people_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """Local time to the second, the level only for warnings and errors, then the event and its fields."""
    set_up_logs("text", "info")
    log = structlog.get_logger()
    log.info("feed polled", new=3, url="https://blog.example/feed", next=None)
    log.warning("feed could not be polled", detail="no answer\n\x1b[31m")
    polled, failed = capsys.readouterr().err.splitlines()
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.fullmatch(rf"{moment} feed polled new=3 url=https://blog.example/feed", polled)
    assert re.fullmatch(rf'{moment} warning: feed could not be polled detail="no answer\\n\\x1b\[31m"', failed)


def test_on_a_terminal_the_time_is_short(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the time of day; warnings have a colour."""
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: True)
    set_up_logs("auto", "info")
    structlog.get_logger().warning("careful")
    shown = capsys.readouterr().err
    assert "\033[33mwarning: careful" in shown
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning: careful\n", re.sub(r"\033\[\d+m", "", shown))


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_shown(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """From our code and from libraries."""
    set_up_logs(form, "info")
    for write in (structlog.get_logger().exception, logging.getLogger("library").exception):
        try:
            raise ValueError("sesame")  # noqa: TRY301 - what is logged is raised here
        except ValueError:
            write("it broke")
    shown = capsys.readouterr().err
    assert shown.count("Traceback (most recent call last)") == 2
    assert shown.count("ValueError: sesame") == 2


def test_a_repeated_warning_is_written_once_a_minute() -> None:
    """Each one with the same content; different warnings and all information lines are written."""
    now = 0.0
    repeats = Repeats(clock=lambda: now)

    def written(level: str = "warning", **line: object) -> dict[str, object] | None:
        try:
            return dict(repeats(None, "", {"level": level, "event": "a stage can't read its stream", **line}))
        except structlog.DropEvent:
            return None

    assert written(stage="store") is not None
    for _ in range(29):
        now += 2.0
        assert written(stage="store") is None
    assert written(stage="entries") is not None
    assert all(written("info", stage="store") for _ in range(3))
    now = 60.0
    again = written(stage="store")
    assert again is not None
    assert again["repeated"] == 29
    now = 119.9
    assert written(stage="store") is None
    now = 500.0
    again = written(stage="store")
    assert again is not None
    assert again["repeated"] == 1


def test_the_memory_for_repeated_lines_is_bounded() -> None:
    """Different warnings take no more memory than a thousand of them."""
    repeats = Repeats(clock=lambda: 0.0)
    for number in range(5000):
        repeats(None, "", {"level": "error", "event": f"feed {number} failed"})
    assert len(repeats._written) == 1000


def test_a_flood_of_a_library_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit covers lines of libraries too."""
    set_up_logs("text", "info")
    for _ in range(100):
        logging.getLogger("library").error("no space left on device")
        structlog.get_logger().error("worker paused: Redis is full", error=OSError(28, "no space"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
