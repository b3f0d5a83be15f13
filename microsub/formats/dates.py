"""Instants as publishers write them, as aware datetimes; None for what can't be true."""

from __future__ import annotations

import calendar
import re
import time
from datetime import UTC, datetime, timedelta, timezone

import feedparser

# Clocks that were never set write the epoch; nothing on the web is older than its first years.
_EARLIEST = datetime(1970, 1, 3, tzinfo=UTC)
_LATEST_YEAR = 9000
_ISO = re.compile(
    r"\s*(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T\s]\s*(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*(?:([Zz])|([+-]\d\d):?(\d\d)?)?\s*\Z"
)


def from_struct(value: time.struct_time | None) -> datetime | None:
    """A UTC time tuple of feedparser."""
    if value is None:
        return None
    try:
        return plausible(datetime.fromtimestamp(calendar.timegm(value), UTC))
    except (ValueError, OverflowError, OSError, TypeError):
        return None


def precise(text: object, parsed: time.struct_time | None) -> datetime | None:
    """A date of feedparser, from its text where that is ISO 8601: the tuple knows neither fractions nor the offset."""
    if isinstance(text, str) and len(text) <= 100 and (match := _ISO.match(text)):
        return _from_iso(match)
    return from_struct(parsed)


def from_text(text: object) -> datetime | None:
    """ISO 8601 as in RFC 3339 and microformats (a blank for `T`, `-0800`), else any form that feeds use.

    A time without offset is taken for UTC.
    """
    if not isinstance(text, str) or len(text) > 100:
        return None
    if match := _ISO.match(text):
        return _from_iso(match)
    try:
        return from_struct(feedparser.datetimes._parse_date(text))
    except (ValueError, OverflowError, TypeError, AttributeError):
        return None


def _from_iso(match: re.Match[str]) -> datetime | None:
    year, month, day, hour, minute, second, fraction, zulu, zone_hours, zone_minutes = match.groups()
    try:
        zone: timezone = UTC
        if zone_hours and not zulu:
            sign = -1 if zone_hours[0] == "-" else 1
            zone = timezone(sign * timedelta(hours=int(zone_hours[1:]), minutes=int(zone_minutes or 0)))
        moment = datetime(int(year), int(month), int(day), tzinfo=zone)
        # Added, not set: 24:00 and leap seconds occur.
        moment += timedelta(hours=int(hour or 0), minutes=int(minute or 0), seconds=int(second or 0))
        return plausible(moment + timedelta(microseconds=int(((fraction or "") + "000000")[:6])))
    except (ValueError, OverflowError):
        return None


def plausible(moment: datetime) -> datetime | None:
    """`moment`, or None where it only shows that a clock was never set."""
    try:
        return moment if moment > _EARLIEST and moment.astimezone(UTC).year < _LATEST_YEAR else None
    except (OverflowError, ValueError):
        return None
