"""Elements of feeds that feedparser leaves out or has otherwise than readers need them.

A mixin for both of its parsers. feedparser calls `_start_<prefix>_<name>` and `_end_<prefix>_<name>`; what these leave
in an entry or in the feed is read by `syndication` and `media`.
"""

from __future__ import annotations

from feedparser.mixin import _FeedParserMixin

Attributes = dict[str, str]

_NAMESPACES = {
    # RFC 4685; feedparser knows the module of RSS 1.0 that has the same prefix.
    "http://purl.org/syndication/thread/1.0": "thr",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner",
}


class Elements(_FeedParserMixin):  # type: ignore[misc]
    """Handlers by the names that feedparser gives them; its own ones stand behind."""

    _matchnamespaces: dict[str, str] = {  # noqa: RUF012 - feedparser's name for it
        **{uri.lower(): prefix for uri, prefix in _FeedParserMixin.namespaces.items()},
        **_NAMESPACES,
    }
    _beside = False
    _group = 0
    _groups = 0
    infeed: int
    inentry: int

    # -- dates: `dates` reads them, once

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

    # -- people: all of them, each with what was said of it and by whom

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

    def _save_author(self, key: str, value: str, prefix: str = "author") -> None:
        # The owner of a podcast isn't who speaks in it.
        if prefix == "author":
            self._get_context().setdefault("authors", [{}])[-1][key] = value

    def _sync_author_detail(self, key: str = "author") -> None:
        """feedparser takes names and addresses apart here; `syndication` does."""

    # -- pictures

    def _start_image(self, attrs_d: Attributes) -> None:
        # In RDF the picture of the channel stands beside it.
        if not self.infeed and not self.inentry:
            self.infeed, self._beside = 1, True
        super()._start_image(attrs_d)

    def _end_image(self) -> None:
        super()._end_image()
        if self._beside:
            self.infeed, self._beside = 0, False

    # -- Media RSS

    def _start_media_group(self, attrs_d: Attributes) -> None:
        self._groups += 1
        self._group = self._groups

    def _end_media_group(self) -> None:
        self._group = 0

    def _start_media_content(self, attrs_d: Attributes) -> None:
        if self._group:
            attrs_d["group"] = str(self._group)
        super()._start_media_content(attrs_d)

    def _start_media_description(self, attrs_d: Attributes) -> None:
        self._get_context()["media_description_type"] = attrs_d.get("type", "plain")
        self.push("media_description", 1)

    def _end_media_description(self) -> None:
        self.pop("media_description")

    # -- threads

    def _start_reply(self, attrs_d: Attributes) -> None:
        self._get_context().setdefault("replies", []).append(attrs_d)


# Names that Python can't spell.
setattr(Elements, "_start_thr_in-reply-to", Elements._start_reply)
