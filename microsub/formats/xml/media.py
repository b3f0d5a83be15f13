"""Attached files: enclosures, Media RSS and iTunes elements, and the types of files."""

from __future__ import annotations

import re
from typing import Any

from microsub.base.urls import host_of, parts_of, safe_url
from microsub.model.jf2 import Enclosure

MAX_ENCLOSURES = 50

_EXTENSIONS = {
    "photo": "jpg jpeg png gif webp avif heic svg bmp tif tiff",
    "video": "mp4 m4v webm mov mkv ogv avi m3u8 mpg mpeg 3gp",
    "audio": "mp3 m4a m4b aac ogg oga opus flac wav wma",
}
_KIND_OF_EXTENSION = {extension: kind for kind, names in _EXTENSIONS.items() for extension in names.split()}
_KIND_OF_TYPE = {"image": "photo", "video": "video", "audio": "audio"}
_YOUTUBE = re.compile(r"[\w-]{3,20}", re.ASCII)
_PLAYERS = frozenset({"yt_videoid", "media_embed_url", "media_player_url"})
_PICTURES = frozenset({"media_thumbnail", "itunes_image", "item_image", "news_image", "image_link"})
_PERIOD = re.compile(r"PT(?:(\d{1,3})H)?(?:(\d{1,4})M)?(?:(\d{1,6})(?:\.\d+)?S)?\Z")
_CLOCK = re.compile(r"(?:(\d{1,3}):)?(\d{1,3}):(\d{1,2})(?:\.\d+)?\Z")
# Portraits of the author that WordPress and GitHub declare as the post's pictures.
_PORTRAITS = re.compile(r"(?:.*\.)?gravatar\.com\Z|avatars\d*\.githubusercontent\.com\Z")

Node = dict[str, Any]

_BEGINNINGS = (
    (rb"\xff\xd8\xff", "image/jpeg", "jpg"),
    (rb"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (rb"GIF8[79]a", "image/gif", "gif"),
    (rb"RIFF....WEBP", "image/webp", "webp"),
    (rb"....ftypavi[fs]", "image/avif", "avif"),
    (rb"....ftyp(?:hei[cmsx]|mif1)", "image/heic", "heic"),
    (rb"....ftypM4[AB] ", "audio/mp4", "m4a"),
    (rb"....ftypqt  ", "video/quicktime", "mov"),
    (rb"....ftyp", "video/mp4", "mp4"),
    (rb"\x1aE\xdf\xa3", "video/webm", "webm"),
    (rb"ID3|\xff[\xf2\xf3\xfb]", "audio/mpeg", "mp3"),
    (rb"OggS", "audio/ogg", "ogg"),
    (rb"fLaC", "audio/flac", "flac"),
    (rb"RIFF....WAVE", "audio/wav", "wav"),
    (rb"%PDF-", "application/pdf", "pdf"),
)
"""The first bytes of files, with their media type and file extension."""

_TYPES = tuple((re.compile(beginning, re.DOTALL), kind) for beginning, kind, _ in _BEGINNINGS)
ENDINGS = {kind: ending for _, kind, ending in _BEGINNINGS}


def type_of(data: bytes) -> str | None:
    """The media type by the first bytes of a file; None if it is unknown."""
    return next((kind for beginning, kind in _TYPES if beginning.match(data)), None)


PICTURES = ("image/avif", "image/webp", "image/png", "image/jpeg", "image/gif", "image/x-icon")
"""Types that browsers show as a picture, and never run."""

_ICON = b"\0\0\1\0"


def picture_type(data: bytes) -> str | None:
    """The type of a picture by its first bytes; None if it is none of `PICTURES`."""
    kind = "image/x-icon" if data.startswith(_ICON) else type_of(data)
    return kind if kind in PICTURES else None


def kind_of(enclosure: Enclosure) -> str | None:
    """`photo`, `video`, `audio` or None, by media type, else by the extension in its (safe) URL."""
    if enclosure.type:
        main = enclosure.type.partition("/")[0].strip().lower()
        if main in _KIND_OF_TYPE:
            return _KIND_OF_TYPE[main]
        if enclosure.type.strip().lower() not in {"application/octet-stream", "binary/octet-stream", "text/html"}:
            return None
    ending = parts_of(enclosure.url).path.rpartition(".")[2].lower()
    return _KIND_OF_EXTENSION.get(ending)


def number(value: object) -> int | None:
    """A non-negative integer in any notation; None for other values."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return int(value) if 0 <= value < 2**53 else None
    text = str(value).strip().replace(",", "")
    try:
        found = int(text) if text.isdecimal() else int(float(text))
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < 2**53 else None


def seconds(value: object) -> int | None:
    """A duration as `3600`, `60:00`, `1:00:00` or `PT1H`, in seconds."""
    if isinstance(value, str) and (match := _CLOCK.match(value.strip()) or _PERIOD.match(value.strip())):
        return int(match[1] or 0) * 3600 + int(match[2] or 0) * 60 + int(match[3] or 0)
    return number(value)


def enclosures(node: Node, links: list[Node], base: str) -> tuple[Enclosure, ...]:
    """All files of a feedparser entry without duplicates: `enclosure`, then `media:content`."""
    found: dict[str, Enclosure] = {}
    duration = seconds(node.get("itunes_duration"))
    if original := safe_url(node.get("feedburner_origenclosurelink"), base):
        # The link itself is a download counter, which works only as long as its operator exists.
        files = [link for link in links if link.get("rel") == "enclosure"]
        counted = [link for link in files if len(files) == 1 or _file_name(link.get("href")) == _file_name(original)]
        links = [{**link, "href": original} if any(link is one for one in counted) else link for link in links]
    for link in links:
        if link.get("rel") == "enclosure" and (url := safe_url(link.get("href"), base)) and url not in found:
            # feedparser assumes that a link without a type is a page.
            kind = None if "untyped" in link else str(link.get("type") or "").strip().lower() or None
            enclosure = Enclosure(url, kind, number(link.get("length")) or None, title=link.get("title") or None)
            if duration and kind_of(enclosure) in {"audio", "video"}:
                enclosure = Enclosure(url, kind, enclosure.length, duration, enclosure.title)
            found[url] = enclosure
    for item in _one_of_each(node.get("media_content") or []):
        url = safe_url(item.get("url"), base)
        if url and url not in found and not _PORTRAITS.match(host_of(url)):
            found[url] = Enclosure(
                url,
                _media_type(item),
                number(item.get("filesize")) or None,
                seconds(item.get("duration")) or None,
                item.get("description") or None,
            )
    for content in node.get("content") or []:
        # RFC 4287, 4.1.3.2: content outside of the feed.
        if (url := safe_url(content.get("src"), base)) and url not in found:
            enclosure = Enclosure(url, None if "untyped" in content else str(content.get("type") or "").lower() or None)
            if kind_of(enclosure):
                found[url] = enclosure
    return tuple(found.values())[:MAX_ENCLOSURES]


def _file_name(url: str | None) -> str:
    return (url or "").partition("?")[0].rpartition("/")[2]


def player(node: Node, base: str) -> Enclosure | None:
    """The page in which the entry's video plays, if the feed has no file of it: YouTube's, or by Media RSS."""
    if _PLAYERS.isdisjoint(node):
        return None  # most entries
    number_of = str(node.get("yt_videoid") or "").strip()
    named = f"https://www.youtube.com/embed/{number_of}" if _YOUTUBE.fullmatch(number_of) else None
    url = named or safe_url(node.get("media_embed_url"), base) or safe_url(node.get("media_player_url"), base)
    if url is None:
        return None
    lengths = (seconds(item.get("duration")) for item in (*(node.get("media_content") or ()), {}))
    return Enclosure(url, "text/html", duration=next((one for one in lengths if one), None))


def _one_of_each(items: list[Node]) -> list[Node]:
    """Drop Flash, which nothing plays any more, and keep one file of each kind from a group.

    The members of a `media:group` are one file in several forms; the default is chosen, else the first.
    """
    items = [item for item in items if item.get("type") != "application/x-shockwave-flash"]
    chosen: dict[tuple[str, str], Node] = {}
    for item in items:
        if (group := item.get("group")) is not None:
            kind = (_media_type(item) or "").partition("/")[0]
            best = chosen.setdefault((group, kind), item)
            if item.get("isdefault") == "true" and best.get("isdefault") != "true":
                chosen[group, kind] = item
    return [item for item in items if "group" not in item or any(item is best for best in chosen.values())]


def _media_type(item: Node) -> str | None:
    """`type`, else the `medium`, for files whose name shows no type."""
    if kind := str(item.get("type") or "").strip().lower():
        return kind
    medium = str(item.get("medium") or "").strip().lower()
    return f"{medium}/*" if medium in _KIND_OF_TYPE else None


def featured(node: Node, base: str) -> str | None:
    """The picture of the entry: its thumbnail, else its iTunes image, else its image element."""
    if _PICTURES.isdisjoint(node):
        return None
    # The largest; of those without a width, the first.
    thumbnails = sorted(
        node.get("media_thumbnail") or [], key=lambda item: number(item.get("width")) or 0, reverse=True
    )
    for item in thumbnails:
        if (url := safe_url(item.get("url"), base)) and not _PORTRAITS.match(host_of(url)):
            return url
    pictures = (node.get(name) for name in ("itunes_image", "item_image", "news_image"))
    if found := next((url for picture in pictures if (url := safe_url(picture, base))), None):
        return found
    return next((url for url in (safe_url(node.get("image_link"), base),) if url and _is_picture(url)), None)


def channel_picture(channel: Node, base: str) -> str | None:
    """The picture of a feed among its Media RSS elements, or the one that an RDF channel only refers to."""
    files = [*(channel.get("media_thumbnail") or ()), *(channel.get("media_content") or ())]
    shown = (item for item in files if "medium" not in item or item["medium"] == "image")
    urls = (url for item in shown if (url := safe_url(item.get("url"), base)))
    return next((url for url in urls if _is_picture(url)), None) or safe_url(channel.get("image_resource"), base)


def _is_picture(url: str) -> bool:
    return kind_of(Enclosure(url)) == "photo"


def portrait(node: Node, base: str) -> str | None:
    """The author's picture, if Media RSS lists it among the entry's pictures."""
    for item in (*(node.get("media_thumbnail") or ()), *(node.get("media_content") or ())):
        if (url := safe_url(item.get("url"), base)) and _PORTRAITS.match(host_of(url)):
            return url
    return None
