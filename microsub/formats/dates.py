"""Parses publishers' dates to aware datetimes; None for implausible ones.

RFC 3339 and RFC 822 (in RSS's form, with four-digit years) cover nearly all dates. Others are parsed by their parts: a
time, a zone or a place in it, a month's name in one of twenty languages, or numbers whose separators show their order.
A time without a zone counts as UTC.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

# A clock that was never set writes the epoch; nothing on the web is from that time.
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
_RFC_822 = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?(\d\d?) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4})"
    r" (\d\d):(\d\d):(\d\d) (?:(GMT|UTC|Z)|([+-]\d\d)(\d\d))\Z"
)
_ORDINAL = re.compile(r"(\d{4})-(\d{3})(?![\d-])")
_WEEK = re.compile(r"(\d{4})-?W(\d\d)(?:-?([1-7]))?(?!\d)")
_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?\Z")
_SECONDS = re.compile(r"\d{9,10}\Z|\d{12,13}\Z")
_COMMENT = re.compile(r"\([^()]*\)")
_HALF = r"(?:\s*(?P<half>[ap])\.?m\b\.?)"
# Morning and afternoon before the time in Chinese, Korean and Japanese.
_BEFORE = r"(?:(?:上午|오전|午前|凌晨)|(?P<late>下午|오후|午後|晚上))?\s*"
_TIMES = (
    rf"(?i){_BEFORE}(?<!\d)(?P<h>\d{{1,2}}):(?P<m>\d{{1,2}})(?::(?P<s>\d{{1,2}})(?:[.,](?P<f>\d{{1,6}})\d*)?)?(?!\d){_HALF}?",
    rf"{_BEFORE}(?<!\d)(?P<h>\d{{1,2}})\s?[時时点시](?:\s?(?P<m>\d{{1,2}})\s?[分분](?:\s?(?P<s>\d{{1,2}})\s?[秒초])?)?",
    r"(?i)(?<!\d)(?P<h>\d{1,2})\s?h(?:\s?(?P<m>\d\d)(?!\d)|\b)",
    rf"(?i)(?<![\d.])(?P<h>\d{{1,2}})(?:\.(?P<m>\d\d))?(?!\d){_HALF}",
    r"(?<=\b\d{4} )(?P<h>\d{1,2})(?= [+-]\d{4}\Z)",
)
"""A time of day: with colons, CJK characters, `14h30`, `9.55pm`; or an hour between year and zone."""

_TIMES_OF_DAY = tuple(map(re.compile, _TIMES))
_PLACE = re.compile(r"[\[(]?\b([A-Z][A-Za-z]{2,}(?:/[A-Z][A-Za-z_-]{1,30}){1,2})\b[\])]?")
_OFFSET = re.compile(r"(?<![\d-])([+-])\s?(\d{1,2})(?::?(\d\d))?(?!\d)")
_WORD = re.compile(r"[^\W\d_]{2,}|\bZ\b")
_NUMBER = re.compile(r"\d+")
_YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})\s?[-/.년年]\s?0?(\d{1,2})\s?[-/.월月]\s?0?(\d{1,2})(?!\d)")
_YEAR_LAST = re.compile(r"(?<!\d)(\d{1,2})([-/. ])\s?(\d{1,2})\2\s?(\d{4})(?!\d)")
# With hyphens, it is unclear which of the three is the year.
_SHORT_YEAR_LAST = re.compile(r"(?<!\d)(\d{1,2})([/.])\s?(\d{1,2})\2\s?(\d\d)(?!\d)")


def from_text(text: object) -> datetime | None:
    """The instant that `text` names, in its zone; `text` may also be a number of seconds since 1970."""
    if text is None:
        return None
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = f"{text:.0f}"
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return None
    text = text.strip()
    try:
        if match := _ISO.match(text) or _COMPACT.match(text):
            return plausible(_from_parts(*match.groups()))
        if match := _RFC_822.match(text):
            day, month, year, hour, minute, second, *zone = match.groups()
            return plausible(_from_parts(year, MONTHS[month.lower()], day, hour, minute, second, None, *zone))
        return plausible(_in_figures(text) or _in_words(text))
    except (ValueError, OverflowError):
        return None


def as_written(text: str | None) -> str | None:
    """A day, or a date and time, in standard form: `2024-06-01T19:30:00+02:00`.

    An event's start may be a day, and a time without a zone is a local time at the event's place. A time has seconds,
    because apps show no event whose times have none.
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
    time = f"T{hour:0>2}:{minute}:{second or '00'}" if hour else ""
    zone = "Z" if zulu else f"{zone_hours}:{zone_minutes or '00'}" if zone_hours else ""
    return f"{year}-{month}-{day}{time}{zone if time else ''}"


def plausible(moment: datetime | None) -> datetime | None:
    """`moment`, or None if it only shows that a clock was never set."""
    if moment is None:
        return None
    try:
        return moment if moment > _EARLIEST and moment.astimezone(UTC).year < _LATEST_YEAR else None
    except (OverflowError, ValueError):
        return None


def _from_parts(
    year: str, month: str | int, day: str, hour: str | None, minute: str | None, second: str | None,
    fraction: str | None, zulu: str | None, zone_hours: str | None, zone_minutes: str | None,
) -> datetime:  # fmt: skip
    zone: timezone = UTC
    if zone_hours and not zulu:
        zone = _zone(zone_hours[0], zone_hours[1:], zone_minutes)
    return _at(datetime(int(year), int(month), int(day), tzinfo=zone), hour, minute, second, fraction)


def _at(
    day: datetime, hour: str | int | None, minute: str | None, second: str | None, fraction: str | None
) -> datetime:
    # Added instead of set, because 24:00 and leap seconds occur.
    day += timedelta(hours=int(hour or 0), minutes=int(minute or 0), seconds=int(second or 0))
    return day + timedelta(microseconds=int(((fraction or "") + "000000")[:6]))


def _zone(sign: str, hours: str, minutes: str | None) -> timezone:
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-offset if sign == "-" else offset)


def _in_figures(text: str) -> datetime | None:
    """Parse the rarer forms of ISO 8601, and seconds or milliseconds since 1970."""
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
    """Parse day, month, year, time and zone in any unambiguous order."""
    place, text = _place(text)
    text = _COMMENT.sub(" ", text)
    hour, minute, second, fraction, rest, behind = 0, None, None, None, text, text
    if match := next((found for pattern in _TIMES_OF_DAY if (found := pattern.search(text))), None):
        parts = match.groupdict()
        hour, minute, second, fraction = int(parts["h"]), parts.get("m") or "00", parts.get("s"), parts.get("f")
        rest, behind = f"{text[: match.start()]} {text[match.end() :]}", text[match.end() :]
        if (parts.get("half") or parts.get("late")) and hour <= 12:
            hour = hour % 12 + (12 if parts.get("late") or (parts.get("half") or "") in "pP" else 0)
    zone: timezone = UTC
    words = [plain_word(word) for word in _WORD.findall(rest)]
    if minute and (offset := _OFFSET.search(behind)):
        zone, place = _zone(offset[1], offset[2], offset[3]), None
        rest = rest.replace(offset[0], " ", 1)
    elif minute and place is None:
        place = next((PLACES[word] for word in _WORD.findall(behind) if word in PLACES), None)
    if place is None and zone is UTC:
        zone = next((timezone(timedelta(minutes=ZONES[word])) for word in reversed(words) if word in ZONES), zone)
    day = _day(rest, words, zone)
    moment = day and _at(day, hour, minute, second, fraction)
    return _in_place(moment, place) if moment and place else moment


def _place(text: str) -> tuple[str | None, str]:
    """The place whose zone `text` names (`Europe/Berlin`), and the text without it."""
    match = _PLACE.search(text)
    return (match[1], text.replace(match[0], " ", 1)) if match else (None, text)


def _in_place(moment: datetime, place: str) -> datetime:
    """The same time of day in the zone of `place`; unchanged if the place is unknown."""
    try:
        offset = moment.replace(tzinfo=ZoneInfo(place)).utcoffset()
    except (LookupError, ValueError, OSError):
        return moment
    return moment.replace(tzinfo=timezone(offset)) if offset is not None else moment


def _day(text: str, words: list[str], zone: timezone) -> datetime | None:
    if match := _YEAR_FIRST.search(text):
        return datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=zone)
    if match := _YEAR_LAST.search(text) or _SHORT_YEAR_LAST.search(text):
        first, second = int(match[1]), int(match[3])
        # With slashes, the month comes first, as in the United States, if it can.
        month, day = (first, second) if match[2] == "/" and first <= 12 else (second, first)
        written = int(match[4])
        return datetime(_century(written) if len(match[4]) == 2 else written, month, day, tzinfo=zone)
    # The last match: in Romance languages, Tuesday starts like March and comes before it.
    month = next((found for word in reversed(words) if (found := MONTHS.get(word[:4]) or MONTHS.get(word[:3]))), 0)
    numbers = _NUMBER.findall(text)
    year = next((number for number in numbers if len(number) == 4), None)
    if month and year and len(numbers) == 1:
        return datetime(int(year), month, 1, tzinfo=zone)
    if not month or len(numbers) < 2:
        return None
    if year:
        numbers.remove(year)
        return datetime(int(year), month, int(numbers[0]), tzinfo=zone)
    return datetime(_century(int(numbers[1])), month, int(numbers[0]), tzinfo=zone)


def _century(year: int) -> int:
    """RFC 5322, 4.3: two digits mean 1950 to 2049; three count from 1900."""
    return year + (2000 if year < 50 else 1900)


# The first three or four letters, without accents. English, German, French, Spanish, Italian, Portuguese, Dutch, the
# Scandinavian languages, Polish, Czech, Romanian, Hungarian, Turkish, Greek, Russian and Ukrainian.
_NAMES = (
    "jan janv ene gen ian led sty oca ιαν янв січ",
    "feb fev fevr unor lut sub φεβ фев лют",
    "mar mars marz mrt mrz maer brez μαρ мар бер",
    "apr avr abr kwi dub nis απρ апр кві",
    "may mai mag mei maj kve μαι май мая тра",
    "jun juin giu iun cze cerv haz ιουν июн чер",
    "jul juil lug iul lip tem ιουλ июл лип",
    "aug aou aout ago sie srp agu αυγ авг сер",
    "sep set sept wrz zari eyl σεπ сен вер",
    "oct okt ott out paz rij eki οκτ окт жов",
    "nov noie lis kas νοε ноя лис",
    "dec des dez dic gru pros ara δεκ дек гру",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}

# Minutes east of Greenwich. A name that several countries use means the one with the most feeds.
_ZONES = {
    "utc ut gmt z wet": 0, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360,
    "pst": -480, "pdt": -420, "akst": -540, "akdt": -480, "hst": -600, "ast": -240, "adt": -180, "nst": -210,
    "brt art": -180, "bst west cet met mez": 60, "cest mest mesz eet sast": 120, "eest msk": 180, "msd": 240,
    "ist": 330, "sgt hkt awst": 480, "jst kst": 540, "acst": 570, "aest": 600, "aedt": 660, "nzst": 720, "nzdt": 780,
}  # fmt: skip
ZONES = {name: minutes for names, minutes in _ZONES.items() for name in names.split()}

# These differ between summer and winter: the time of that place is meant. Only in capitals.
PLACES = {
    "AT": "America/Halifax", "ET": "America/New_York", "CT": "America/Chicago", "MT": "America/Denver",
    "PT": "America/Los_Angeles",
}  # fmt: skip


def plain_word(word: str) -> str:
    """`word` in lower case without accents: `Décembre` becomes `decembre`."""
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))
