"""Documents of 50 and 120 kilobytes that keep a parser busy or crash it.

They are small enough for all doors (an app's page may have 256 KiB). Without a guard, Lexbor and html5ever take 3 to 5
seconds of processor time for nested elements, and a gigabyte for formatting elements that are never closed. Documents
that cost them a tenth of a second nest thousands of levels deep, for the code that traverses the resulting tree.
"""

from __future__ import annotations

SIZE = 50_000
QUADRATIC = 120_000
"""Bytes; the second is for documents whose cost grows with the square of their size, which isn't so for our parsers."""


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
