"""What a post responds to, and where and when, in HTML and words: without it, a repost or check-in is a bare address.

Only what the post's own content lacks is said. The markup has the classes of an h-entry. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape

from microsub.formats.documents.words import Words, day
from microsub.formats.html.text import html_to_text
from microsub.model.jf2 import Card, Entry, Review

_RESPONSES = {
    "repost_of": "Reposted",
    "like_of": "Liked",
    "bookmark_of": "Bookmarked",
    "follow_of": "Follows",
    "in_reply_to": "In reply to",
}
_QUOTED = 300
"""Characters quoted of a post that is only referred to."""


def context(entry: Entry, said: Words = str) -> str:
    """Paragraphs that say what the post's own content doesn't, in the words of `said`; empty if there is nothing."""
    return "\n".join(_paragraphs(entry, said))


def told(entry: Entry, said: Words = str) -> str:
    """These paragraphs as plain text in one line, for a title."""
    return " ".join(html_to_text(context(entry, said)).split())


def _paragraphs(entry: Entry, said: Words) -> Iterator[str]:
    content = (entry.content and (entry.content.html or escape(entry.content.text or ""))) or ""
    for name, verb in _RESPONSES.items():
        for target in getattr(entry, name):
            if _lacks(content, target) and target != entry.url:
                yield from _response(
                    entry, target, said(verb), f"u-{name.replace('_', '-')}", whole=name == "repost_of"
                )
    quoted = entry.quotation_of
    if quoted and _lacks(content, quoted):
        yield from _response(entry, quoted, said("Quotes"), "u-quotation-of", whole=True)
    if entry.rsvp and _lacks(content, entry.rsvp):
        yield f'<p>{said("RSVP:")} <span class="p-rsvp">{escape(entry.rsvp)}</span></p>'
    if entry.start and _lacks(content, begins := _shown(entry.start, said)):
        end = f" – {_time(entry.end, _shown(entry.end, said), 'dt-end')}" if entry.end else ""
        yield f"<p>{said('When:')} {_time(entry.start, begins, 'dt-start')}{end}</p>"
    if entry.review is not None:
        yield from _review(entry.review, content, said)
    for place, verb, kind in (
        (entry.checkin, "Checked in at", "u-checkin"),
        (entry.location, "Where:" if entry.start else "At", "p-location"),
    ):
        if place is not None and (where := _place(place, kind)) and _lacks(content, place.name or where):
            yield f"<p>{said(verb)} {where}</p>"


def _review(review: Review, content: str, said: Words) -> Iterator[str]:
    """The reviewed thing and the rating."""
    item = review.item and _place(review.item, "u-item")
    if review.item and item and _lacks(content, review.item.name or item):
        yield f"<p>{said('Review of')} {item}</p>"
    best = f" {said('of')} {escape(review.best)}" if review.best else ""
    rating = f"<p>{said('Rating:')} {escape(review.rating or '')}{best}</p>"
    if review.rating and rating not in content:
        yield rating


def _lacks(content: str, said: str) -> bool:
    return said not in content and escape(said) not in content


def _response(entry: Entry, target: str, verb: str, kind: str, *, whole: bool) -> Iterator[str]:
    """What the post does with another one, and a quotation of that: `whole`, or its beginning if it has no name."""
    other = entry.refs.get(target)
    link = f'<a class="{kind}" href="{escape(target)}">'
    if not isinstance(other, Entry):
        yield f"<p>{verb} {link}{escape((other and other.name) or target)}</a></p>"
        return
    author = (other.author and (other.author.name or other.author.url)) or ""
    named = ": ".join(filter(None, (author, other.name))) or target
    content, text = other.content, (other.content and other.content.text) or other.summary or ""
    quoted = ""
    if whole and content and content.html:
        quoted = content.html
    elif text and (whole or not other.name):
        shown = text if whole or len(text) <= _QUOTED else text[:_QUOTED].rsplit(" ", 1)[0] + "…"
        quoted = f"<p>{escape(shown, quote=False)}</p>"
    yield f"<p>{verb} {link}{escape(named)}</a>{':' if quoted else ''}</p>"
    if quoted:
        yield f"<blockquote>{quoted}</blockquote>"


def _shown(text: str, said: Words) -> str:
    """A time as people write it; as the publisher writes it if it can't be read."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    begin, offset = day(moment, said), moment.strftime("%z")
    if ":" not in text:
        return begin
    return f"{begin}, {moment:%H:%M}" + (f" (UTC{offset[:3]}:{offset[3:5]})" if offset else "")


def _time(text: str, shown: str, kind: str) -> str:
    return f'<time class="{kind}" datetime="{escape(text)}">{escape(shown)}</time>'


def _place(place: Card, kind: str) -> str:
    """A place with its link and address; coordinates if nothing else is known; empty for nothing."""
    address = ", ".join(filter(None, (place.street_address, place.locality, place.region, place.country_name)))
    point = f"{place.latitude}, {place.longitude}" if place.latitude and place.longitude else ""
    name = place.name or address or point
    if not name:
        return ""
    shown = f'<a class="{kind}" href="{escape(place.url)}">{escape(name)}</a>' if place.url else escape(name)
    if not place.url:
        shown = f'<span class="{kind.replace("u-", "p-")}">{shown}</span>'
    return shown + (f", {escape(address)}" if place.name and address else "")
