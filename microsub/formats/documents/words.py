"""The words that output feeds add to posts, in the language of the feed; English if it isn't known here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

Words = Callable[[str], str]
"""The words of a language for English ones."""

_GERMAN = {
    "Follow:": "Folgen:",
    "Older posts": "Ältere Beiträge",
    "Picture": "Bild",
    "changed": "geändert",
    "Untitled": "Ohne Titel",
    "Reposted": "Weitergegeben:",
    "Liked": "Gefällt mir:",
    "Bookmarked": "Lesezeichen:",
    "Follows": "Folgt",
    "In reply to": "Antwort auf",
    "Quotes": "Zitiert",
    "RSVP:": "Zusage:",
    "When:": "Wann:",
    "Where:": "Wo:",
    "At": "In",
    "Checked in at": "Eingecheckt:",
    "Review of": "Besprechung:",
    "Rating:": "Bewertung:",
    "of": "von",
    "January": "Januar",
    "February": "Februar",
    "March": "März",
    "May": "Mai",
    "June": "Juni",
    "July": "Juli",
    "October": "Oktober",
    "December": "Dezember",
}
_LANGUAGES: Mapping[str, Mapping[str, str]] = {"de": _GERMAN}


def words(language: str) -> Words:
    """The words of a language tag such as `de-AT`."""
    known = _LANGUAGES.get(language.lower().partition("-")[0], {})
    return lambda word: known.get(word, word)


def day(moment: datetime, said: Words) -> str:
    """A day for people: `21 November 2026`, `21. November 2026`."""
    form = "{}. {} {}" if said("May") == "Mai" else "{} {} {}"
    return form.format(moment.day, said(f"{moment:%B}"), moment.year)
