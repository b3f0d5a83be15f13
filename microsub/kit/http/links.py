"""The members of an HTTP `Link` header (RFC 8288). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote, urljoin

_LINK = re.compile(r"""<([^<>]*)>((?:\s*;\s*[\w!#$&+.^`|~*-]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)""")
_PARAMETER = re.compile(r""";\s*([\w!#$&+.^`|~*-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?""")


@dataclass(frozen=True, slots=True)
class HttpLink:
    """One member of an HTTP `Link` header; `target` may be relative, and so may `anchor`.

    The document that the link is one of, where it isn't the one that was asked for.
    """

    target: str
    rel: str
    type: str = ""
    title: str | None = None
    anchor: str | None = None


def from_header(header: str | None) -> list[HttpLink]:
    """The members of a `Link` header; of repeated parameters the first counts (RFC 8288, 3.3)."""
    found = []
    for target, parameters in _LINK.findall(header or ""):
        values: dict[str, str] = {}
        for name, quoted, token in _PARAMETER.findall(parameters):
            values.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or token)
        found.append(
            HttpLink(target, values.get("rel", ""), values.get("type", ""), _titled(values), values.get("anchor"))
        )
    return found


def _titled(parameters: Mapping[str, str]) -> str | None:
    """The title, in its international form (RFC 8187) where there is one."""
    charset, _, rest = parameters.get("title*", "").partition("'")
    written = rest.partition("'")[2]
    if written and charset.lower() in {"utf-8", "iso-8859-1"}:
        return unquote(written, charset)
    return parameters.get("title")


def links_of(header: str | None, url: str) -> Iterator[HttpLink]:
    """The links that the document at `url` has in its `Link` header; those of other documents are left out.

    Values of headers are latin-1 by the letter and UTF-8 by what servers send.
    """
    text = header
    if text is not None:
        with suppress(UnicodeError):
            text = text.encode("latin-1").decode("utf-8")
    for link in from_header(text):
        if link.anchor is None or urljoin(url, link.anchor).partition("#")[0] == url.partition("#")[0]:
            yield link
