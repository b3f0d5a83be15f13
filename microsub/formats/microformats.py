"""Reads values of parsed microformats (https://microformats.org/wiki/microformats2-parsing).

A property is a list whose members are strings, `{value, alt}` for images, `{html, value}` for `e-*`, or whole nested
items. These helpers return what is there, and nothing if it is missing.

The author of a post is found by the authorship algorithm (https://indieweb.org/authorship-spec), as far as one page is
enough. If the algorithm would fetch the author's page, the card has only the address: `lookups` then requests the page,
and `references` reads it, with `representative`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from microsub.base.urls import host_of, normalise_profile, safe_url
from microsub.model.jf2 import Card

Node = dict[str, Any]
_PLACES = frozenset({"h-card", "h-adr", "h-geo"})
MAX_DEPTH = 12
MAX_ANGLE = 32
_PARAMETER = re.compile(r";(?=\w+=)")


def values(item: Node, name: str) -> list[Any]:
    """All members of the property `name`."""
    found = item.get("properties", {}).get(name, [])
    return found if isinstance(found, list) else []


def plain(value: Any) -> str:
    """The text or URL of one member, whatever its form."""
    if isinstance(value, dict):
        value = value.get("value", "")
        if isinstance(value, dict):
            value = value.get("value", "")
    return value.strip() if isinstance(value, str) else ""


def text(item: Node, name: str) -> str | None:
    """The first non-empty member of the property `name` as text."""
    return next((found for value in values(item, name) if (found := plain(value))), None)


def urls(item: Node, name: str, base: str) -> list[str]:
    """The web addresses in the property `name`, absolute; of nested items their `url`."""
    found = (safe_url(_address(value, base), base) for value in values(item, name))
    return list(dict.fromkeys(url for url in found if url))


def files(item: Node, name: str, base: str) -> list[str]:
    """The members of the property `name` that are addresses of files.

    Like `urls`, but without texts, such as the caption of a `p-photo`. The parser makes only values absolute that are
    marked up as addresses (`u-*`).
    """
    members = [v for v in values(item, name) if is_item(v) or "://" in plain(v) or plain(v).startswith("/")]
    return urls({"properties": {name: members}}, name, base)


def url(item: Node, name: str, base: str) -> str | None:
    """The first web address in the property `name`."""
    return next(iter(urls(item, name, base)), None)


def _address(value: Any, base: str) -> str:
    if not is_item(value):
        return plain(value)
    own = next((plain(v) for v in values(value, "url") if plain(v)), "")
    # For an item without an address, the parser supplies the page's own.
    return own or (plain(value) if plain(value) != base.partition("#")[0] else "")


def is_item(value: Any) -> bool:
    """Whether a member is a nested item instead of a plain value."""
    return isinstance(value, dict) and isinstance(value.get("type"), list) and "properties" in value


def has_type(item: Node, *names: str) -> bool:
    """Whether the item has one of these root classes."""
    return any(name in names for name in item.get("type", []))


def walk(items: list[Any], depth: int = 0) -> Iterator[Node]:
    """All items, including those nested in children and properties, in document order."""
    if depth > MAX_DEPTH:
        return
    for item in items:
        if not is_item(item):
            continue
        yield item
        for members in item.get("properties", {}).values():
            if isinstance(members, list):
                yield from walk(members, depth + 1)
        yield from walk(item.get("children", []), depth + 1)


def card(value: Any, base: str) -> Card | None:
    """A person or place from a nested item, a URL, or a name; None if it is empty."""
    if not is_item(value):
        word = plain(value)
        if not word:
            return None
        if word.startswith("geo:"):
            return _named_point(word, base)
        address = safe_url(word, base) if "://" in word or word.startswith("/") else None
        return Card(url=address) if address else Card(name=word)
    place = point(value)
    found = Card(
        type=next((t[2:] for t in value["type"] if t in _PLACES), "card"),
        name=text(value, "name"),
        url=card_url(value, base),
        photo=url(value, "photo", base) or url(value, "logo", base),
        note=text(value, "note"),
        latitude=place.latitude if place is not None else None,
        longitude=place.longitude if place is not None else None,
        street_address=_address_part(value, "street-address"),
        locality=_address_part(value, "locality"),
        region=_address_part(value, "region"),
        country_name=_address_part(value, "country-name"),
    )
    return found if found != Card(type=found.type) else None


def card_url(item: Node, base: str) -> str | None:
    """The profile among an h-card's addresses: its `uid`, one on the page's host, or the first."""
    found = urls(item, "url", base)
    if not found and (address := safe_url(item.get("value") if isinstance(item.get("value"), str) else None, base)):
        # `u-author h-card` on a link: mf2 implies no url next to a `u-photo`, but the property's value is one.
        found = [address] if "://" in str(item["value"]) else []
    uid = url(item, "uid", base)
    if uid and (uid in found or not found):
        return uid
    return next((address for address in found if host_of(address) == host_of(base)), found[0] if found else None)


def point(item: Node) -> Card | None:
    """The location of `item`, from its coordinates or its `geo`: an item, a `geo:` URI, or two numbers.

    A card may have them in its address or location.
    """
    for holder in (item, *(one for name in ("geo", "adr", "location") for one in values(item, name) if is_item(one))):
        latitude, longitude = _coordinate(holder, "latitude", 90), _coordinate(holder, "longitude", 180)
        if latitude and longitude:
            return Card(type="geo", latitude=latitude, longitude=longitude)
        words = (plain(value) for value in values(holder, "geo"))
        if found := next((found for word in words if (found := _point(word))), None):
            return found
    return None


def _point(text: str) -> Card | None:
    """A place from a `geo:` URI (RFC 5870), or from the two numbers of a classic `geo`."""
    numbers = text[4:].partition(";")[0].split(",") if text.startswith("geo:") else re.split(r"[;,]", text)
    if len(numbers) < 2:
        return None
    latitude, longitude = numbers[0].strip(), numbers[1].strip()
    if _is_angle(latitude, 90) and _is_angle(longitude, 180):
        return Card(type="geo", latitude=latitude, longitude=longitude)
    return None


def _named_point(text: str, base: str) -> Card | None:
    """A place from a `geo:` URI, with the `name` and `url` that IndiePass for Android adds as unencoded parameters."""
    found = _point(text)
    told = dict(part.partition("=")[::2] for part in _PARAMETER.split(text)[1:])
    name, address = unquote(told.get("name", "")).strip() or None, safe_url(told.get("url"), base)
    return replace(found, type="card", name=name, url=address) if found and (name or address) else found


def _is_angle(word: str, limit: int) -> bool:
    try:
        return len(word) <= MAX_ANGLE and abs(float(word)) <= limit
    except ValueError:
        return False


def _coordinate(item: Node, name: str, limit: int) -> str | None:
    """A decimal string, from the item itself or its `geo`."""
    for holder in (item, *(geo for geo in values(item, "geo") if is_item(geo))):
        word = text(holder, name)
        if word and _is_angle(word, limit):
            return word
    return None


def _address_part(item: Node, name: str) -> str | None:
    for holder in (item, *(adr for adr in values(item, "adr") if is_item(adr))):
        if word := text(holder, name):
            return word
    return None


@dataclass(frozen=True, slots=True)
class Page:
    """A page's data about people.

    `base` is the base of its links, `items` are its top-level items, `rel_*` its `rel` links. `people` maps each
    profile, in comparison form, to the data in the page's h-cards.
    """

    url: str
    base: str
    items: list[Node]
    people: Mapping[str, Card]
    rel_author: tuple[str, ...] = ()
    rel_me: tuple[str, ...] = ()


def people_on(items: list[Node], base: str) -> dict[str, Card]:
    """All people with a profile among `items`; top-level h-cards, which are the most complete, take precedence."""
    found: dict[str, Card] = {}
    for holder in ([item for item in items if has_type(item, "h-card")], walk(items)):
        for item in holder:
            if has_type(item, "h-card") and (person := card(item, base)) is not None:
                for address in urls(item, "url", base) or ([person.url] if person.url else []):
                    known = found.get(normalise_profile(address), Card())
                    found[normalise_profile(address)] = replace(
                        person, name=known.name or person.name, photo=known.photo or person.photo
                    )
    return found


def author_of(item: Node, feed: Node | None, page: Page) -> Card | None:
    """The author of `item`: its own, that of the h-feed around it, or the page's `rel=author`."""
    for holder in (item, feed):
        if holder is not None:
            for value in values(holder, "author"):
                if (person := card(value, page.base)) is not None:
                    return complete(person, page)
    if page.rel_author:
        person = complete(Card(url=page.rel_author[0]), page)
        # The card of this page's person says more than an unknown "about" page.
        return person if person.name else representative(page) or person
    return None


def complete(card: Card, page: Page) -> Card:
    """Complete `card` with another h-card of this page for the same profile."""
    if card.url is None or (card.name and card.photo):
        return card
    known = page.people.get(normalise_profile(card.url), Card())
    return replace(card, name=card.name or known.name, photo=card.photo or known.photo)


def representative(page: Page) -> Card | None:
    """The person of the page (https://microformats.org/wiki/representative-h-card-parsing)."""
    here = normalise_profile(page.url)
    me = {normalise_profile(url) for url in page.rel_me}
    top = [item for item in page.items if has_type(item, "h-card")]
    cards = top + [item for item in walk(page.items) if has_type(item, "h-card")]
    candidates = [(item, {normalise_profile(u) for u in urls(item, "url", page.base)}) for item in cards]
    for item, profiles in candidates:
        uids = {normalise_profile(u) for u in urls(item, "uid", page.base)}
        if here in profiles & uids:
            return card(item, page.base)
    for item, profiles in candidates:
        if profiles & me:
            return card(item, page.base)
    if len(top) == 1 and here in {normalise_profile(u) for u in urls(top[0], "url", page.base)}:
        return card(top[0], page.base)
    return None
