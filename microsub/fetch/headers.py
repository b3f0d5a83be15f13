"""Reads and writes headers (RFC 9110, RFC 9111). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microsub.model.settings import UserAgent

RawHeaders = Iterable[tuple[bytes, bytes]]


def readable(raw: RawHeaders) -> dict[str, str]:
    """Lower-case names to values as latin-1 text; repeated ones are joined with a comma."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def first(raw: RawHeaders, name: bytes) -> str | None:
    """The first value of a header, as latin-1 text; None when it is missing or empty."""
    for key, value in raw:
        if key.lower() == name and value:
            return value.decode("latin-1")
    return None


def user_agent(software: str, about: str, subscribers: int, other: UserAgent | None = None) -> str:
    """The User-Agent: the software, a URL with details (may be empty), and the number of subscribers.

    Some publishers refuse all but browsers; for them `other` is the way that followers or the admin chose.
    """
    if other == "browser":
        return "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    if other == "compatible":
        return f"Mozilla/5.0 (compatible; {'; '.join([software, *([f'+{about}'] if about else [])])})"
    told = [f"+{about}"] if about else []
    if subscribers:
        told.append(f"{subscribers} subscriber{'' if subscribers == 1 else 's'}")
    return f"{software} ({'; '.join(told)})" if told else software


def of_request(authority: str, agent: str, accept: str) -> list[tuple[bytes, bytes]]:
    """The headers of every request: no cookies, no referrer, one request per connection."""
    return [
        (b"Host", authority.encode("ascii")),
        (b"User-Agent", agent.encode("ascii", "ignore")),
        (b"Accept", accept.encode("ascii")),
        (b"Accept-Encoding", b"gzip, deflate"),
        (b"Connection", b"close"),
    ]


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds from `now` until the server accepts another request (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    text = value.strip()
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", text):
        return float(text)
    moment = http_date(text)
    return None if moment is None else max(0.0, moment - now)


def http_date(value: str | None) -> float | None:
    """A date in any HTTP format as Unix seconds; None if it is invalid."""
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def max_age(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds for which the publisher calls the reply fresh (RFC 9111, 4.2), or None.

    `no-cache` and `no-store` make it 0; `max-age` wins over `Expires`; the time that the reply has spent in a shared
    cache (`Age`) is subtracted.
    """
    control = headers.get("cache-control", "").lower()
    if re.search(r"\b(no-cache|no-store)\b", control):
        return 0.0
    found = re.search(r"(?<![\w-])max-age\s*=\s*\"?([0-9]{1,12})", control)
    if found:
        age = re.match(r"[0-9]{1,12}", headers.get("age", "").strip())
        return max(0.0, float(found[1]) - (float(age[0]) if age else 0.0))
    if "expires" not in headers:
        return None
    expires = http_date(headers["expires"])
    if expires is None:
        return 0.0  # "0" and other invalid dates mean: already expired
    sent = http_date(headers.get("date"))
    return max(0.0, expires - (sent if sent is not None else now))


def encodable(value: str | None) -> bytes | None:
    """A stored validator as the original bytes; None if it can't be sent in a header."""
    if not value:
        return None
    try:
        raw = value.encode("latin-1")
    except UnicodeEncodeError:
        return None
    return None if re.search(rb"[\x00\r\n\f\v]", raw) or raw != raw.strip() else raw
