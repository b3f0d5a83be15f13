"""Players in foreign frames: which may be framed, the pages and stills behind them, and links instead of all others."""

from __future__ import annotations

import re
from html import escape, unescape
from urllib.parse import parse_qs, urlsplit

from microsub.base.urls import safe_url
from microsub.formats.entry_id import fold

# Exact hosts, and the paths of their players: their other paths may lead anywhere.
_PLAYERS = r"""(?ix)https://(?![^?\#]*/\.+(?:[/?\#]|\Z))(?:
      (?:www\.)?youtube(?:-nocookie)?\.com/embed/ | player\.vimeo\.com/video/ | vimeo\.com/event/
    | www\.dailymotion\.com/embed/ | geo\.dailymotion\.com/player\b | w\.soundcloud\.com/player/
    | bandcamp\.com/EmbeddedPlayer\b | open\.spotify\.com/embed\b | embed\.podcasts\.apple\.com/
    | embed\.music\.apple\.com/ | player\.twitch\.tv/ | clips\.twitch\.tv/embed\b | media\.ccc\.de/v/[\w.-]+/oembed\b
    | archive\.org/embed/ | (?:www\.)?openstreetmap\.org/export/embed\.html | codepen\.io/[\w-]+/embed/
    | embed\.ted\.com/talks/ | player\.bilibili\.com/player\.html | rumble\.com/embed/
    | (?:www\.|player-widget\.)?mixcloud\.com/widget/ | widget\.deezer\.com/widget/ | embed\.tidal\.com/
    )
    (?:[^?\#%;\\] | %(?:20|2[67c]|3[ad]|40|[89ab][\da-f]|c[2-9a-f]|d[\da-f]|e(?!0%[89])[\da-f]|f(?!0%8)[0-4]))*+
    (?:[?\#]|\Z)"""
PLAYER = re.compile(_PLAYERS)
"""Matches addresses that may be framed.

The rest of the path has no step upwards, and no escape that a server could decode as one: of `/`, `\\`, `.`, `%` and
control characters, or of overlong forms of these in UTF-8.
"""

_PAGES = tuple(
    (re.compile(player), page, still)
    for player, page, still in (
        (r"https://(?:www\.)?youtube(?:-nocookie)?\.com/embed/videoseries\?(?:[^#]*&)?list=([\w-]{5,80})",
         "https://www.youtube.com/playlist?list={}", ""),
        (r"https://(?:www\.)?youtube(?:-nocookie)?\.com/embed/([\w-]{3,20})",
         "https://www.youtube.com/watch?v={}", "https://i.ytimg.com/vi/{}/hqdefault.jpg"),
        (r"https://player\.vimeo\.com/video/(\d+)", "https://vimeo.com/{}", ""),
        (r"https://www\.dailymotion\.com/embed/video/(\w+)",
         "https://www.dailymotion.com/video/{}", "https://www.dailymotion.com/thumbnail/video/{}"),
        (r"https://open\.spotify\.com/embed(?:-podcast)?/([a-z]+/\w+)", "https://open.spotify.com/{}", ""),
        (r"https://archive\.org/embed/([\w.-]+)", "https://archive.org/details/{}",
         "https://archive.org/services/img/{}"),
        (r"https://media\.ccc\.de/v/([\w.-]+)/oembed", "https://media.ccc.de/v/{}", ""),
        (r"https://embed\.ted\.com/talks/([\w/-]+)", "https://www.ted.com/talks/{}", ""),
        (r"https://clips\.twitch\.tv/embed\?(?:[^#]*&)?clip=([\w-]+)", "https://clips.twitch.tv/{}", ""),
        (r"https://player\.bilibili\.com/player\.html\?(?:[^#]*&)?bvid=(\w+)", "https://www.bilibili.com/video/{}", ""),
        (r"https://embed\.(?:podcasts|music)\.apple\.com(?=/)([^#]+)", "https://podcasts.apple.com{}", ""),
        (r"https://codepen\.io/([\w-]+)/embed/(?:preview/)?(\w+)", "https://codepen.io/{}/pen/{}", ""),
    )
)  # fmt: skip
# Frames in which nothing is read or played: buttons, advertisements, counters.
_BUTTONS = re.compile(
    r"(?i)//[^/]*(?:googletagmanager|doubleclick|googlesyndication|amazon-adsystem|recaptcha|addthis|adnxs)\."
    r"|/plugins/(?:like|share_button|page|comments)\b|tweet_button|follow_button|slashdot-it\.pl|[?&]pixel\b"
    r"|\.swf(?:[?#]|\Z)"
)
_FLASH = re.compile(r"(?i)https?://(?:www\.)?youtube(?:-nocookie)?\.com/v/([\w-]{3,20})")
_FALLBACK = re.compile(r"(?is)<a\s([^<>]{1,3000}+)>(.{0,500}?)</a\s*>")
_HREF = re.compile(r"(?i)\bhref\s*=\s*[\"']?([^\"'\s<>]{1,2000})")
_TAG = re.compile(r"<[^<>]*>")


def page_of(player: str) -> tuple[str, str]:
    """The page on which people watch what a player shows, the player itself if it is unknown; and a still, or ''."""
    for pattern, page, still in _PAGES:
        if found := pattern.match(player):
            return page.format(*found.groups()), still.format(*found.groups())
    return player, ""


def framed(source: str, base: str) -> tuple[str | None, str, str]:
    """The address of a player that may be framed, else None; the page to link instead; and a still, or ''.

    `source` is a frame's address, also of one that Embedly puts around a player. The page is '' for a frame in which
    nothing is read or played.
    """
    url = safe_url(source, base) or ""
    if flash := _FLASH.match(url):
        url = f"https://www.youtube.com/embed/{flash[1]}"
    parts = urlsplit(url)
    still = ""
    if parts.netloc.lower() == "cdn.embedly.com":
        asked = parse_qs(parts.query, max_num_fields=50)
        inner, page, still = (safe_url(asked.get(name, [""])[0], "https:") or "" for name in ("src", "url", "image"))
        if _secure(inner) is not None:
            url, page = inner, inner
        url = page or inner
    if not url or _BUTTONS.search(url):
        return None, "", ""
    return _secure(url), url, still


def _secure(url: str) -> str | None:
    url = f"https:{url.partition(':')[2]}"
    return url if PLAYER.match(url) else None


def frame(source: str, base: str, title: str = "", inner: str = "", size: str = "", still: str = "") -> str:
    """Markup for a frame: the player if it may be framed, else a link.

    `inner` is the frame's markup for browsers without frames, whose link is the best; `size` are attributes to keep.
    The result is sanitised later.
    """
    player, page, found = framed(source, base)
    title = fold(title)[:300]
    if player:
        named = f' title="{escape(title)}"' if title else ""
        return f'<iframe src="{escape(player)}"{named}{size}></iframe>'
    for link in _FALLBACK.finditer(inner[:5000]):
        if href := _HREF.search(link[1]):
            words = fold(unescape(_TAG.sub(" ", link[2])))
            return f'<a href="{escape(unescape(href[1]))}">{escape(words or href[1])}</a>'
    return player_link(page, title, found or still) if page else ""


def player_link(page: str, title: str = "", still: str = "") -> str:
    """A link to a player's page: with its still and title, if these are known, and its host."""
    words = f"▶ {title} ({_host(page)})" if title else f"▶ {_host(page)}"
    picture = f'<img src="{escape(still)}" alt=""><br>' if still else ""
    return f'<a href="{escape(page)}">{picture}{escape(words)}</a> '


def names_player(words: str, page: str) -> bool:
    """Whether a link with these words after `▶` is one of `player_link`."""
    return words == _host(page) or words.endswith(f" ({_host(page)})")


def _host(page: str) -> str:
    return (urlsplit(page).hostname or "").removeprefix("www.")
