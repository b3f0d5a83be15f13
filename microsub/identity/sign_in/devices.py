"""A browser in a few words, from its `User-Agent` (RFC 9110, 10.1.5), for the list of sessions. Pure.

Only these words are stored. Browsers claim to be others, so the special names are looked for before the common ones.
"""

from __future__ import annotations

_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("OpenBSD", "OpenBSD"),
    ("FreeBSD", "FreeBSD"),
    ("Linux", "Linux"),
)


def device(user_agent: str) -> str:
    """Such as `Firefox on Linux`; `a browser` where nothing of it is known."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return f"{browser or 'a browser'} on {system}" if system else browser or "a browser"
