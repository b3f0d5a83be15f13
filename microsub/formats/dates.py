"""Instants as publishers write them, as aware datetimes; None for what can't be true.

RFC 3339 and RFC 822 (as RSS has it, with four digits for the year) cover nearly all of them. The rest is read by its
parts: a time, a zone, the name of a month in one of twenty languages, or figures whose order their separators tell.
A time without zone is taken for UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from microsub.formats.months import MONTHS, ZONES, plain_word

# Clocks that were never set write the epoch; nothing on the web is older than its first years.
_EARLIEST = datetime(1970, 1, 3, tzinfo=UTC)
_LATEST_YEAR = 9000
MAX_LENGTH = 100

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T\s]\s*(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*(?:([Zz])|([+-]\d\d):?(\d\d)?)?\Z"
)
_COMPACT = re.compile(
    r"(\d{4})(\d\d)(\d\d)(?:T?(\d\d)(\d\d)(\d\d)?(?:[.,](\d+))?)?\s*(?:([Zz])|([+-]\d\d):?(\d\d)?)?\Z"
)
_ORDINAL = re.compile(r"(\d{4})-(\d{3})(?!\d)")
_WEEK = re.compile(r"(\d{4})-?W(\d\d)(?:-?([1-7]))?(?!\d)")
_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?\Z")
_SECONDS = re.compile(r"\d{9,10}\Z|\d{12,13}\Z")
_COMMENT = re.compile(r"\([^()]*\)")
_TIME = re.compile(r"(?i)(?<!\d)(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,6})\d*)?)?(?!\d)(?:\s*([ap])\.?m\b\.?)?")
_OFFSET = re.compile(r"(?<![\d-])([+-])\s?(\d{1,2})(?::?(\d\d))?(?!\d)")
_WORD = re.compile(r"[^\W\d_]{2,}|\bZ\b")
_NUMBER = re.compile(r"\d+")
_YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})\s?[-/.년年]\s?(\d{1,2})\s?[-/.월月]\s?(\d{1,2})(?!\d)")
_YEAR_LAST = re.compile(r"(?<!\d)(\d{1,2})([-/.])\s?(\d{1,2})\2\s?(\d{4})(?!\d)")


def from_text(text: object) -> datetime | None:
    """The instant that `text` names, in the zone that it names; seconds since 1970 may be a number."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = f"{text:.0f}"
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return None
    text = text.strip()
    try:
        if match := _ISO.match(text) or _COMPACT.match(text):
            return plausible(_from_parts(*match.groups()))
        return plausible(_in_figures(text) or _in_words(text))
    except (ValueError, OverflowError):
        return None


def as_written(text: str | None) -> str | None:
    """A date and time in the one form that every program reads (`2024-06-01T19:30+02:00`), as exact as it was written.

    The start of an event may be a day, and a time without a zone is one where the event takes place.
    """
    match = (_ISO.match(text) or _COMPACT.match(text)) if text else None
    if not match:
        moment = from_text(text)
        return moment.isoformat() if moment else None
    try:
        _from_parts(*match.groups())
    except (ValueError, OverflowError):
        return None
    year, month, day, hour, minute, second, _, zulu, zone_hours, zone_minutes = match.groups()
    time = f"T{hour:0>2}:{minute}{f':{second}' if second else ''}" if hour else ""
    zone = "Z" if zulu else f"{zone_hours}:{zone_minutes or '00'}" if zone_hours else ""
    return f"{year}-{month}-{day}{time}{zone if time else ''}"


def plausible(moment: datetime | None) -> datetime | None:
    """`moment`, or None where it only shows that a clock was never set."""
    if moment is None:
        return None
    try:
        return moment if moment > _EARLIEST and moment.astimezone(UTC).year < _LATEST_YEAR else None
    except (OverflowError, ValueError):
        return None


def _from_parts(
    year: str, month: str, day: str, hour: str | None, minute: str | None, second: str | None, fraction: str | None,
    zulu: str | None, zone_hours: str | None, zone_minutes: str | None,
) -> datetime:  # fmt: skip
    zone: timezone = UTC
    if zone_hours and not zulu:
        zone = _zone(zone_hours[0], zone_hours[1:], zone_minutes)
    return _at(datetime(int(year), int(month), int(day), tzinfo=zone), hour, minute, second, fraction)


def _at(
    day: datetime, hour: str | int | None, minute: str | None, second: str | None, fraction: str | None
) -> datetime:
    # Added, not set: 24:00 and leap seconds occur.
    day += timedelta(hours=int(hour or 0), minutes=int(minute or 0), seconds=int(second or 0))
    return day + timedelta(microseconds=int(((fraction or "") + "000000")[:6]))


def _zone(sign: str, hours: str, minutes: str | None) -> timezone:
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-offset if sign == "-" else offset)


def _in_figures(text: str) -> datetime | None:
    """The rarer forms of ISO 8601, and seconds or milliseconds since 1970."""
    if match := _SECONDS.match(text):
        seconds = int(match[0]) / (1000 if len(match[0]) > 10 else 1)
        return datetime.fromtimestamp(seconds, UTC)
    if match := _ORDINAL.match(text):
        return datetime(int(match[1]), 1, 1, tzinfo=UTC) + timedelta(days=int(match[2]) - 1)
    if match := _WEEK.match(text):
        return datetime.fromisocalendar(int(match[1]), int(match[2]), int(match[3] or 1)).replace(tzinfo=UTC)
    if match := _MONTH.match(text):
        return datetime(int(match[1]), int(match[2] or 1), 1, tzinfo=UTC)
    return None


def _in_words(text: str) -> datetime | None:
    """Any order of day, month, year, time and zone, as long as it is clear which is which."""
    text = _COMMENT.sub(" ", text)
    hour, minute, second, fraction, half, rest, behind = 0, None, None, None, None, text, text
    if match := _TIME.search(text):
        hour, minute, second, fraction, half = int(match[1]), match[2], match[3], match[4], match[5]
        rest, behind = f"{text[: match.start()]} {text[match.end() :]}", text[match.end() :]
        if half and hour <= 12:
            hour = hour % 12 + (12 if half in "pP" else 0)
    zone: timezone = UTC
    words = [plain_word(word) for word in _WORD.findall(rest)]
    if minute and (offset := _OFFSET.search(behind)):
        zone = _zone(offset[1], offset[2], offset[3])
        rest = rest.replace(offset[0], " ", 1)
    else:
        zone = next((timezone(timedelta(minutes=ZONES[word])) for word in reversed(words) if word in ZONES), UTC)
    day = _day(rest, words, zone)
    return day and _at(day, hour, minute, second, fraction)


def _day(text: str, words: list[str], zone: timezone) -> datetime | None:
    if match := _YEAR_FIRST.search(text):
        return datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=zone)
    if match := _YEAR_LAST.search(text):
        first, second = int(match[1]), int(match[3])
        # With slashes the month comes first, as in the United States, unless it can't.
        month, day = (first, second) if match[2] == "/" and first <= 12 else (second, first)
        return datetime(int(match[4]), month, day, tzinfo=zone)
    # The last one: in Romance languages Tuesday begins like March, and comes before it.
    month = next((found for word in reversed(words) if (found := MONTHS.get(word[:4]) or MONTHS.get(word[:3]))), 0)
    numbers = _NUMBER.findall(text)
    if not month or len(numbers) < 2:
        return None
    year = next((number for number in numbers if len(number) == 4), None)
    if year:
        numbers.remove(year)
        return datetime(int(year), month, int(numbers[0]), tzinfo=zone)
    return datetime(_century(int(numbers[1])), month, int(numbers[0]), tzinfo=zone)


def _century(year: int) -> int:
    """RFC 5322, 4.3: two digits mean 1950 to 2049; three come from programs that count from 1900."""
    return year + (2000 if year < 50 else 1900)
