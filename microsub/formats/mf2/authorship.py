"""Who wrote a post: the authorship algorithm (https://indieweb.org/authorship-spec), as far as one page answers it.

Where the algorithm would fetch the author's page, the card keeps the address alone: `lookups` says that it is wanted,
and `references` reads it, with `representative`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from microsub.formats.mf2 import values
from microsub.kit.urls import normalise_profile
from microsub.model.jf2 import Card


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says about people: the base of its links, its top-level items, and its `rel` links.

    `people` maps each profile, in comparison form, to what the page's h-cards say about it.
    """

    url: str
    base: str
    items: list[values.Node]
    people: Mapping[str, Card]
    rel_author: tuple[str, ...] = ()
    rel_me: tuple[str, ...] = ()


def people_on(items: list[values.Node], base: str) -> dict[str, Card]:
    """Everybody with a profile among `items`, by profile; h-cards that stand alone first: they tend to be complete."""
    found: dict[str, Card] = {}
    for holder in ([item for item in items if values.has_type(item, "h-card")], values.walk(items)):
        for item in holder:
            if values.has_type(item, "h-card") and (card := values.card(item, base)) is not None:
                for url in values.urls(item, "url", base) or ([card.url] if card.url else []):
                    known = found.get(normalise_profile(url), Card())
                    found[normalise_profile(url)] = replace(
                        card, name=known.name or card.name, photo=known.photo or card.photo
                    )
    return found


def author_of(item: values.Node, feed: values.Node | None, page: Page) -> Card | None:
    """The author of `item`: its own, that of the h-feed around it, or the one that the page links as `rel=author`."""
    for holder in (item, feed):
        if holder is not None:
            for value in values.values(holder, "author"):
                if (card := values.card(value, page.base)) is not None:
                    return complete(card, page)
    if page.rel_author:
        card = complete(Card(url=page.rel_author[0]), page)
        # An "about" page that isn't known here says less than the person whom this page is about.
        return card if card.name else representative(page) or card
    return None


def complete(card: Card, page: Page) -> Card:
    """`card` with what another h-card of this page knows about the same profile."""
    if card.url is None or (card.name and card.photo):
        return card
    known = page.people.get(normalise_profile(card.url), Card())
    return replace(card, name=card.name or known.name, photo=card.photo or known.photo)


def representative(page: Page) -> Card | None:
    """The person that the page is about (https://microformats.org/wiki/representative-h-card-parsing)."""
    here = normalise_profile(page.url)
    me = {normalise_profile(url) for url in page.rel_me}
    top = [item for item in page.items if values.has_type(item, "h-card")]
    cards = top + [item for item in values.walk(page.items) if values.has_type(item, "h-card")]
    candidates = [(item, {normalise_profile(u) for u in values.urls(item, "url", page.base)}) for item in cards]
    for item, profiles in candidates:
        uids = {normalise_profile(u) for u in values.urls(item, "uid", page.base)}
        if here in profiles & uids:
            return values.card(item, page.base)
    for item, profiles in candidates:
        if profiles & me:
            return values.card(item, page.base)
    if len(top) == 1 and here in {normalise_profile(u) for u in values.urls(top[0], "url", page.base)}:
        return values.card(top[0], page.base)
    return None
