"""The members of an HTTP `Link` header (RFC 8288). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote, urljoin

_LINK = re.compile(r"""<([^<>]*)>((?:\s*;\s*[\w!#$&+.^`|~*-]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)""")
_PARAMETER = re.compile(r""";\s*([\w!#$&+.^`|~*-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?""")


class HttpLink(NamedTuple):
    """One member of an HTTP `Link` header; `target` and `anchor` may be relative.

    `anchor` is the document that the link belongs to, if it isn't the requested one.
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
    """The title, in its international form (RFC 8187) if there is one."""
    charset, _, rest = parameters.get("title*", "").partition("'")
    written = rest.partition("'")[2]
    if written and charset.lower() in {"utf-8", "iso-8859-1"}:
        return unquote(written, charset)
    return parameters.get("title")


def links_of(header: str | None, url: str) -> Iterator[HttpLink]:
    """The links of the document at `url` in its `Link` header, without those of other documents.

    Header values are specified as latin-1, but sent as UTF-8.
    """
    text = header
    if text is not None:
        with suppress(UnicodeError):
            text = text.encode("latin-1").decode("utf-8")
    for link in from_header(text):
        if link.anchor is None or urljoin(url, link.anchor).partition("#")[0] == url.partition("#")[0]:
            yield link
