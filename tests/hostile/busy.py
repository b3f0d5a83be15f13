"""Documents of 50 and 120 kilobytes that are made to keep a parser busy, or to end it.

Small enough for all doors (an app's page may have 256 KiB). `python -m tests.hostile.busy` measures them. Seconds of
processor time, with at most 1 GiB, on a machine that did other things as well:

    document                            Lexbor     html5ever     ours, as a page     ours, in a feed
    list items that nest                 3.2        5.3          0.06                0.02
    annotations that nest                3.4        5.2          0.03                0.02
    cells that nest                      0.1        0.1          0.08                0.08
    tables in tables                     0.1        0.1          0.01                0.01
    formatting that is never closed     1 GiB      1 GiB         0.23                0.23
    links that are never closed          0.1        0.1          0.11                0.09
    attributes by the ten thousand       0.5        0.4          0.02                0.32
    templates in templates               0.1        0.1          0.01                0.01
    selects                              0.1        0.1          0.01                0.01
    foreign content                      0.1        0.1          0.01                0.01
    end tags in comments and values      0.1        0.1          0.01                0.02

Most of 0.1 seconds is the start of a process. What costs no more than that nests thousands deep, for whoever walks
through the tree that comes out.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

SIZE = 50_000
QUADRATIC = 120_000
"""Bytes; the second is for documents whose cost grows with the square of their size, and ours doesn't."""
LIMIT = 20.0
MEMORY = 1 << 30
"""What a parser without a guard may take here: seconds of processor time, and bytes."""


def _filled(unit: str, head: str = "", size: int = SIZE) -> str:
    return head + unit * ((size - len(head)) // len(unit))


PAGES = {
    "list items that nest": _filled("<li><dd>", size=QUADRATIC),
    "annotations that nest": _filled("<rt><rp>", size=QUADRATIC),
    "cells that nest": _filled("<tr><td><li><dd>", "<table>"),
    "tables in tables": _filled("<table><td>"),
    "formatting that is never closed": _filled("</p><p>x", "<p>" + "".join(f"<b id=a{n}>" for n in range(1000))),
    "links that are never closed": _filled("<p><a href=x>"),
    "attributes by the ten thousand": "<p " + " ".join(f"a{number}=1" for number in range(QUADRATIC // 9)) + ">",
    "templates in templates": _filled("<template>"),
    "selects": _filled("<select><option><select><optgroup>"),
    "foreign content": _filled("<svg><desc><math><mtext>"),
    "end tags in comments and values": _filled("<li title='</li>'><!--</li>--><dd title='</dd>'>"),
}
FEEDS = {
    "arrays in arrays": _filled("[", '{"version":"https://jsonfeed.org/version/1","items":'),
    "tags that don't end": _filled("<", "<rss><channel><title>t</title>"),
}


def in_a_feed(markup: str) -> str:
    return f"<rss><channel><item><title>t</title><description><![CDATA[{markup}]]></description></item></channel></rss>"


def _naive(kind: str, name: str) -> None:
    """Parse one without a guard, in this process."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(LIMIT), int(LIMIT)))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    text = {**PAGES, **FEEDS}[name]
    if kind == "Lexbor":
        from selectolax.lexbor import LexborHTMLParser

        found = LexborHTMLParser(text)
        assert found.html
    elif kind == "html5ever":
        import nh3

        nh3.clean(text)
    elif kind == "feedparser":
        import feedparser

        feedparser.parse(text.encode())


def _seconds(*arguments: str) -> tuple[float, bool]:
    """Processor seconds of a process, and whether it came to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run([sys.executable, "-m", "tests.hostile.busy", *arguments], check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, process.returncode == 0


def measure() -> None:
    """Print a table: seconds of parsers without a guard, and of ours."""
    from microsub.discovery.links import discover
    from microsub.errors import ParseError
    from microsub.formats.parse import parse

    for name, text in {**PAGES, **FEEDS}.items():
        row = [name]
        for kind in ("Lexbor", "html5ever") if name in PAGES else ("feedparser",):
            seconds, ended = _seconds(kind, name)
            row.append(f"{kind} {seconds:.1f} s" if ended else f"{kind} ended after {seconds:.0f} s")
        for what, body in (("page", text), ("in a feed", in_a_feed(text))) if name in PAGES else (("feed", text),):
            started = time.process_time()
            try:
                parse(body.encode(), "https://a.example/", None)
                said = "read"
            except ParseError as error:
                said = error.detail[:60]
            if what == "page":
                discover(body.encode(), "https://a.example/", "text/html", None)
            row.append(f"{what}: {said} {time.process_time() - started:.2f} s")
        print(" | ".join(row), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _naive(*sys.argv[1:])
    else:
        measure()
