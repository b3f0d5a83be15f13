"""Text of publishers and users never controls the terminal, whichever command prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import microsub
from microsub.base.plaintext import CONTROLS
from tests.cli.conftest import in_a_process
from tests.support.process import installation
from tests.support.web import Answer, publisher

PACKAGE = Path(microsub.__file__).parent
EVIL = "a\x1b[2J\x9b2J\x9d0;x\x07\u202ebcd\u2066e\u200ff\u061cg\u2028h\x85i"
FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>{0}</title><link>https://a.example/</link>
<item><title>{0}</title><link>https://a.example/1?{0}</link><guid>{0}</guid><description>{0}</description></item>
</channel></rss>""".format("".join(char if ord(char) > 0x1F else "" for char in EVIL))


def controls(text: str) -> set[str]:
    return set(CONTROLS.findall(text)) - {"\n"}


def test_a_parsed_document_is_json_without_controls(tmp_path: Path) -> None:
    """The value is the same: programs that read it get the publisher's text."""
    (tmp_path / "feed.xml").write_text(FEED, encoding="utf-8")
    done = in_a_process("parse", str(tmp_path / "feed.xml"), "--url", "https://a.example/feed")
    assert not controls(done.stdout + done.stderr)
    assert "\u202ebcd" in json.loads(done.stdout)["children"][0]["content"]["text"]


def test_a_page_that_names_feeds_with_controls_is_shown_without(tmp_path: Path) -> None:
    """The message is on standard error, separate from the JSON."""
    page = (
        f'<link rel=alternate type=application/rss+xml href="/\u202e{EVIL}"><div class=h-entry><p class=p-name>x</div>'
    )
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    done = in_a_process("parse", str(tmp_path / "page.html"), "--url", "https://a.example/")
    assert not controls(done.stdout + done.stderr)
    assert "which a follow would use" in done.stderr


async def test_publishers_texts_are_shown_without_controls(tmp_path: Path) -> None:
    """Guids, titles and errors of publishers, in all commands that show them, as lines and as JSON."""
    feed = {"version": "https://jsonfeed.org/version/1", "title": EVIL, "items": [{"id": EVIL, "title": EVIL}]}
    async with publisher() as site:
        good = site.serve_document("/good", json.dumps(feed).encode(), "application/feed+json")
        bad = site.serve("/bad", Answer(b"x", headers=[("Content-Encoding", "\x9b31m")]))
        backend = {"users": {"alice": {"channels": [{"uid": "home", "feeds": [good, bad]}]}}}
        async with installation(tmp_path, backend) as installed:
            await installed.prepare()
            await installed.run_each("token create alice")
            shown = [await installed.run("poll"), await installed.run("poll", "--json")]
            for command in (("events",), ("events", "--json"), ("feed", "list"), ("feed", "list", "--json")):
                shown.append(await installed.run(*command))
    told = "".join(out + err for _, out, err in shown)
    assert not controls(told)
    assert "Content-Encoding" in told
    events = [json.loads(line) for line in shown[3][1].splitlines()]
    assert EVIL in {event.get("guid") for event in events}


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("cli/*.py")), ids=lambda path: path.stem)
def test_commands_print_in_one_way(path: Path) -> None:
    """All use `cli.options`, which escapes, so no command can omit it."""
    text = path.read_text()
    assert path.stem == "options" or "click.echo(" not in text
    assert "print(" not in text.replace("_print(", "")
