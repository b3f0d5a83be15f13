"""Elements of feeds that feedparser ignores, or reads differently from what readers need.

A mixin for both of its parsers. feedparser calls `_start_<prefix>_<name>` and `_end_<prefix>_<name>`; `syndication` and
`media` read what these store in an entry or in the feed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partialmethod
from typing import Any
from urllib.parse import urljoin

from feedparser.mixin import _FeedParserMixin

from microsub.formats.html.sanitise import URL_ATTRIBUTES, candidates

Attributes = dict[str, str]

TRIPS = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""Errors of feedparser's handlers for elements in an unexpected order or with unexpected values."""

_NAMESPACES = {
    # RFC 4685; feedparser knows the RSS 1.0 module with the same prefix.
    "http://purl.org/syndication/thread/1.0": "thr",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner",
    "http://www.google.com/schemas/play-podcasts/1.0": "googleplay",
    "http://news.yandex.ru": "yandex",
    "http://turbo.yandex.ru": "turbo",
    "https://podcastindex.org/namespace/1.0": "podcast",
    "https://github.com/podcastindex-org/podcast-namespace/blob/main/docs/1.0.md": "podcast",
}
_UNDECLARED = {"atom": "", "atom10": "", "a10": ""}
"""Meanings of prefixes in documents that don't declare them; other usual prefixes mean what feedparser calls so."""


class _Namespaces(dict[str, str]):
    """Prefixes by namespace; https, blanks and a character at the end make no difference."""

    def __init__(self, known: Mapping[str, str]) -> None:
        super().__init__({_plain(uri): prefix for uri, prefix in known.items()})

    def __contains__(self, uri: object) -> bool:
        return super().__contains__(_plain(str(uri)))

    def __getitem__(self, uri: str) -> str:
        return super().__getitem__(_plain(uri))

    def get(self, uri: str, default: Any = None) -> Any:
        """The prefix, or `default`."""
        return super().get(_plain(uri), default)


def _plain(uri: str) -> str:
    plain = "".join(uri.lower().split()).rstrip("/#")
    return f"http{plain[5:]}" if plain.startswith("https:") else plain


_NO_WEB_ADDRESS = re.compile(r"(?i)\s*(?!https?:)[a-z][a-z0-9+.-]*:")
_MAX_GROWTH = 1_000_000
"""Characters by which a document's addresses may grow: a long base enlarges many short ones."""


class Elements(_FeedParserMixin):  # type: ignore[misc]
    """Handlers with the names that feedparser expects; its own ones come after them."""

    _matchnamespaces = _Namespaces({**_FeedParserMixin.namespaces, **_NAMESPACES})
    _beside = False
    _group = 0
    _groups = 0
    _grown = 0
    _file: Attributes | None = None
    _channel: dict[str, Any] | None = None
    infeed: int
    inentry: int
    baseuri: str
    version: str
    namespacemap: dict[str | None, str]
    contentparams: dict[str, str]

    # An id is used literally (RFC 4287, 4.2.6). feedparser's `_keep` and `pop` would resolve it.
    can_be_relative_uri = _FeedParserMixin.can_be_relative_uri - {"id"}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.namespacemap.update(_UNDECLARED)

    # -- bases: markup in a text has the text's base, except inside another `xml:base`

    def strattrs(self, attrs: Iterable[tuple[str, str]]) -> str:
        """The attributes of an element of XHTML content, as markup."""
        if self.baseuri != self.contentparams.get("base"):
            attrs = [(name, self._rebased(name, value)) for name, value in attrs]
        return str(super().strattrs(attrs))

    def _rebased(self, name: str, value: str) -> str:
        if name == "srcset":
            found = ", ".join(f"{self._absolute(url)} {said}".strip() for url, said in candidates(value))
        elif name in URL_ATTRIBUTES:
            found = self._absolute(value)
        else:
            return value
        self._grown += len(found) - len(value)
        return found if self._grown < _MAX_GROWTH else value

    def _absolute(self, url: str) -> str:
        try:
            return urljoin(self.baseuri, url.strip())
        except ValueError:
            return url

    def unknown_endtag(self, tag: str) -> None:
        """End an element and its base, which feedparser would keep for the following elements."""
        super().unknown_endtag(tag)
        if self.basestack:
            self.baseuri = self.basestack[-1]

    # -- dates: only `dates` parses them

    def _end_published(self) -> None:
        self.pop("published")

    def _end_updated(self) -> None:
        self.pop("updated")

    def _end_created(self) -> None:
        self.pop("created")

    def _end_expirationdate(self) -> None:
        self.pop("expired")

    _end_issued = _end_pubdate = _end_published
    _end_modified = _end_lastbuilddate = _end_updated

    def _start_dc_date(self, attrs_d: Attributes) -> None:
        # Under its own name: feedparser treats it as `updated`, and the last one counts.
        self.push("dc_date", 1)

    def _end_dc_date(self) -> None:
        self.pop("dc_date")

    # -- ids and channels: the first one counts

    def _start_guid(self, attrs_d: Attributes) -> None:
        # An id of something inside the entry doesn't count as the first.
        first = self.inentry and not self.insource and self.entries and dict.get(self.entries[-1], "id_depth")
        if first and self.depth >= first:
            self.push("ignored", 0)
        else:
            super()._start_guid(attrs_d)

    def _end_guid(self) -> None:
        if self.elementstack and self.elementstack[-1][0] == "ignored":
            self.pop("ignored")
        else:
            super()._end_guid()
            if self.inentry and self.entries:
                dict.__setitem__(self.entries[-1], "id_depth", self.depth)

    _start_id, _end_id = _start_guid, _end_guid

    def _start_channel(self, attrs_d: Attributes) -> None:
        if self._channel is not None:
            self.feeddata = type(self._channel)()
        super()._start_channel(attrs_d)

    def _end_channel(self) -> None:
        super()._end_channel()
        if self._channel is None:
            self._channel = self.feeddata
        self.feeddata = self._channel

    # -- people: all of them, with their data and the format's name for them

    def _start_author(self, attrs_d: Attributes, by: str = "") -> None:
        self.inauthor = 1
        self.push("author", 1)
        self._get_context().setdefault("authors", []).append({"by": by})

    def _end_author(self) -> None:
        text = self.pop("author")
        self.inauthor = 0
        if text:
            self._get_context()["authors"][-1]["text"] = text

    _start_managingeditor = _start_author
    _end_managingeditor = _end_author

    def _start_dc_creator(self, attrs_d: Attributes) -> None:
        self._start_author(attrs_d, "dc")

    _start_dc_author = _start_dc_creator

    def _start_itunes_author(self, attrs_d: Attributes) -> None:
        self._start_author(attrs_d, "itunes")

    _start_googleplay_author = _start_itunes_author
    _end_googleplay_author = _end_author

    def _save_author(self, key: str, value: str, prefix: str = "author") -> None:
        # The owner of a podcast isn't its speaker.
        if prefix == "author":
            self._get_context().setdefault("authors", [{}])[-1][key] = value

    def _sync_author_detail(self, key: str = "author") -> None:
        """Do nothing: `syndication` separates names and addresses, not feedparser."""

    # -- links

    def _start_link(self, attrs_d: Attributes) -> None:
        # RFC 4287, 4.2.7.2: relations are short forms of addresses below this one.
        attrs_d["rel"] = attrs_d.get("rel", "alternate").removeprefix("http://www.iana.org/assignments/relation/")
        if "type" not in attrs_d:
            attrs_d["untyped"] = "yes"
        # feedparser reads a link's text only if no attribute has an address, of whatever scheme.
        for name in ("href", "url", "uri"):
            # In Atom, an empty address is that of the base.
            if _NO_WEB_ADDRESS.match(attrs_d.get(name, "/")) or (attrs_d.get(name) == "" and not self._is_atom()):
                del attrs_d[name]
        super()._start_link(attrs_d)

    def _is_atom(self) -> bool:
        return str(self.version).startswith("atom")

    def _end_link(self) -> None:
        in_picture = self.inimage and self.inentry
        text = self.pop("link")
        if text and in_picture:
            self.entries[-1].setdefault("image_link", text)

    # -- texts

    def _start_description(self, attrs_d: Attributes) -> None:
        if self.infeed and not self.inentry:
            # A channel's own description is never the second text after `itunes:summary`.
            self._summaryKey = None
            self.push_content("description", attrs_d, "text/html", 1)
        else:
            super()._start_description(attrs_d)

    def _start_itunes_subtitle(self, attrs_d: Attributes) -> None:
        # Under its own name: feedparser treats it as `description`, and the last one counts.
        self.push("itunes_subtitle", 1)

    def _end_itunes_subtitle(self) -> None:
        self.pop("itunes_subtitle")

    def _start_googleplay_description(self, attrs_d: Attributes) -> None:
        self._start_itunes_summary(attrs_d)

    def _end_googleplay_description(self) -> None:
        self._end_itunes_summary()

    def _start_full_text(self, attrs_d: Attributes) -> None:
        self._start_content_encoded(attrs_d)

    def _end_full_text(self) -> None:
        self._end_content()

    _start_turbo_content = _start_full_text
    _end_turbo_content = _end_full_text

    def _start_content(self, attrs_d: Attributes) -> None:
        super()._start_content(attrs_d)
        if "src" in attrs_d and "type" not in attrs_d:
            self.contentparams["untyped"] = "yes"

    # -- pictures

    def _start_image(self, attrs_d: Attributes) -> None:
        # In RDF, the channel's picture is next to the channel, not in it.
        if not self.infeed and not self.inentry:
            self.infeed, self._beside = 1, True
        if (address := attrs_d.get("rdf:resource")) and not self.inentry:
            self._get_context()["image_resource"] = address
        super()._start_image(attrs_d)

    def _end_image(self) -> None:
        text = self.pop("image")
        self.inimage = 0
        if text and self.inentry:
            self.entries[-1]["item_image"] = text
        if self._beside:
            self.infeed, self._beside = 0, False

    def _end_url(self) -> None:
        value = self.pop("href")
        if self.inauthor:
            self._save_author("href", value)
        elif self.inentry and self.inimage:
            self.entries[-1]["item_image"] = value

    _end_uri = _end_homepage = _end_url

    def _start_itunes_image(self, attrs_d: Attributes) -> None:
        if address := attrs_d.get("href") or attrs_d.get("url"):
            self._get_context()["itunes_image"] = address
        self.push("itunes_image", 0)

    def _end_itunes_image(self) -> None:
        if text := self.pop("itunes_image"):
            self._get_context().setdefault("itunes_image", text)

    _start_itunes_link = _start_googleplay_image = _start_itunes_image
    _end_itunes_link = _end_googleplay_image = _end_itunes_image

    # -- Media RSS

    def _start_media_group(self, attrs_d: Attributes) -> None:
        self._groups += 1
        self._group = self._groups

    def _start_media_player(self, attrs_d: Attributes) -> None:
        if address := attrs_d.get("url"):
            self._get_context().setdefault("media_player_url", address)
        self.push("media_player", 0)

    def _end_media_player(self) -> None:
        self.pop("media_player")

    def _start_media_embed(self, attrs_d: Attributes) -> None:
        if address := attrs_d.get("url"):
            self._get_context().setdefault("media_embed_url", address)
        self.push("media_embed", 0)

    def _end_media_embed(self) -> None:
        self.pop("media_embed")

    def _end_media_group(self) -> None:
        self._group = 0

    def _start_media_content(self, attrs_d: Attributes) -> None:
        if self._group:
            attrs_d["group"] = str(self._group)
        self._file = attrs_d
        super()._start_media_content(attrs_d)

    def _end_media_content(self) -> None:
        self._file = None

    def _start_media_description(self, attrs_d: Attributes) -> None:
        self._get_context()["media_description_type"] = attrs_d.get("type", "plain")
        self.push("media_description", 1)

    def _end_media_description(self) -> None:
        text = self.pop("media_description")
        if text and self._file is not None:
            # Mastodon's descriptions of pictures for people who can't see them.
            self._file["description"] = text

    # -- podcasts: all elements in one list, in their order

    def _start_podcast(self, name: str, attrs_d: Attributes) -> None:
        self._get_context().setdefault("podcast", []).append({**attrs_d, "element": name})
        self.push(f"podcast_{name}", 1)

    def _end_podcast(self, name: str) -> None:
        node = self._get_context()["podcast"][-1]
        if (text := self.pop(f"podcast_{name}")) and node["element"] == name:
            node["text"] = text

    def _end_itunes_explicit(self) -> None:
        # As text: feedparser knows only two of its values.
        self.pop("itunes_explicit")

    # -- threads

    def _start_reply(self, attrs_d: Attributes) -> None:
        self._get_context().setdefault("replies", []).append(attrs_d)


def _ignore(self: Elements, attrs_d: Attributes) -> None:
    self.push("ignored", 0)


def _end_ignored(self: Elements) -> None:
    self.pop("ignored")


# An unknown element is stored under its own name, which would overwrite the entry's own data of that name.
for _name in ("authors", "contributors", "links", "tags", "replies", "item_image", "itunes_image", "podcast"):
    if not hasattr(Elements, f"_start_{_name}"):
        setattr(Elements, f"_start_{_name}", _ignore)
        setattr(Elements, f"_end_{_name}", _end_ignored)
for _prefix, _names in {
    "podcast": "transcript chapters person season episode alternateenclosure source funding location",
    "psc": "chapter",
}.items():
    for _name in _names.split():
        setattr(Elements, f"_start_{_prefix}_{_name}", partialmethod(Elements._start_podcast, _name))
        setattr(Elements, f"_end_{_prefix}_{_name}", partialmethod(Elements._end_podcast, _name))
# Names that aren't Python identifiers.
setattr(Elements, "_start_thr_in-reply-to", Elements._start_reply)
setattr(Elements, "_start_yandex_full-text", Elements._start_full_text)
setattr(Elements, "_end_yandex_full-text", Elements._end_full_text)
