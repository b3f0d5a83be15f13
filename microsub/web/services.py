"""The services to which users send posts, such as a list of bookmarks; kept with the account as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import orjson

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import on_one_line, shown
from microsub.base.texts import N_, Sentence
from microsub.base.urls import web_address

MOST = 10
"""Services of a user."""
LONGEST_NAME, LONGEST = 40, 1000
"""Characters of a name, and of an address."""
URL, TITLE = "{url}", "{title}"
_SERVER = "{server}"
_NO_SECRETS = frozenset("{@")
"""Characters that no host of a service has: no part of a post is sent there, and no name and password are kept."""
_TITLE_SENT = 200
"""Characters of a title in an address, in which one may take twelve bytes."""
_MAIL = re.compile(r"mailto:[^?{\s]*\?", re.IGNORECASE)

_PROFILE = re.compile(r"^@?[\w.-]+@(?=[\w.-]+$)|(?<=[^/])/@.*")
"""What makes a server's address that of somebody's profile there: `@ann@social.example`, `https://social.example/@ann`."""

KNOWN: Mapping[str, str] = {
    "Wallabag": "{server}/bookmarklet?url={url}",
    "Linkding": "{server}/bookmarks/new?url={url}&title={title}",
    "Shaarli": "{server}/?post={url}&title={title}",
    "Mastodon": "{server}/share?text={title}%20{url}",
    "Instapaper": "https://www.instapaper.com/hello2?url={url}&title={title}",
    "Pinboard": "https://pinboard.in/add?next=same&url={url}&title={title}",
    "Raindrop": "https://app.raindrop.io/add?link={url}&title={title}",
    "Email": "mailto:?subject={title}&body={url}",
}
"""Services by name, with the pages on which they take a post; those of one's own server begin with its address."""


class Service(NamedTuple):
    """A service, and the address of its page for a post: `{url}` and `{title}` stand for those of the post."""

    name: str
    address: str

    def page_for(self, url: str, title: str) -> str:
        """The address of its page for the post with that URL and title, of which the first 200 characters are sent."""
        return self.address.replace(URL, quote(url, safe="")).replace(TITLE, quote(title[:_TITLE_SENT], safe=""))


@lru_cache(maxsize=1024)
def services_in(stored: str) -> tuple[Service, ...]:
    """The services as they are stored with the account; the first one has the key."""
    return tuple(Service(*one) for one in orjson.loads(stored or "[]"))


def stored_services(services: Iterable[Service]) -> str:
    """The services as they are stored, '' for none."""
    rows = [[*one] for one in services]
    return orjson.dumps(rows).decode() if rows else ""


def with_service(there: Sequence[Service], service: Service) -> list[Service]:
    """The services with one more, which takes the place of the one of its name. Raises InvalidRequest."""
    names = [one.name for one in there]
    if service.name in names:
        return [service if one.name == service.name else one for one in there]
    if len(there) >= MOST:
        raise InvalidRequest(Sentence(N_("You already have {most} services. Remove one first."), most=MOST))
    return [*there, service]


def chosen_service(kind: str, address: str, name: str, there: Sequence[Service] = ()) -> Service:
    """A service as a form or an export states it. Raises InvalidRequest.

    `kind` is a name in KNOWN, whose server is at `address`, or '' for another service, whose address has `{url}`.
    Without a name it is called like its kind, or by its host if another one of those that are `there` is called so.
    """
    given, made = address.strip(), KNOWN.get(kind, "")
    if URL in given:
        kind, made = "", given
    elif _SERVER in made:
        server = _server(_PROFILE.sub("", given) if kind == "Mastodon" else given)
        made = made.replace(_SERVER, server)
    elif kind == "Email" and given:
        made = made.replace("mailto:", f"mailto:{given}")
    elif made and given:
        why = N_(
            "{service} needs no address; found “{found}”. For another service, give an address with {placeholder}."
        )
        raise InvalidRequest(Sentence(why, service=kind, found=shown(given), placeholder=URL))
    if made.count(URL) != 1 or made.count(TITLE) > 1:
        why = N_(
            "The address of a service has {placeholder} in it once, in place of the post’s address; found “{found}”."
        )
        raise InvalidRequest(Sentence(why, placeholder=URL, found=shown(given)))
    if len(made) > LONGEST:
        why = N_("found {count} characters, expected at most {most}")
        raise InvalidRequest(Sentence(why, count=str(len(made)), most=str(LONGEST)))
    sample = Service("", made).page_for("x", "x")
    is_mail = _MAIL.match(made)
    if not made.isprintable() or (
        not is_mail and (web_address(sample) != sample or not _NO_SECRETS.isdisjoint(_place(made)))
    ):
        why = N_("“{found}” is no address of a service; expected one like {example}")
        raise InvalidRequest(Sentence(why, found=shown(made), example="https://bookmarks.example/add?url={url}"))
    is_taken = any(one.name == kind and one.address != made for one in there)
    usual = kind if kind and not is_taken else _place(made) or "Email"
    return Service(on_one_line(name)[:LONGEST_NAME] or usual[:LONGEST_NAME], made)


def _server(address: str) -> str:
    """The address of a server, without the slash at its end. Raises InvalidRequest."""
    found = web_address(address if "://" in address else f"https://{address}")
    if found is None:
        why = N_("“{found}” is no address of a server; expected one like {example}")
        raise InvalidRequest(Sentence(why, found=shown(address), example="https://bookmarks.example"))
    return found.partition("?")[0].partition("#")[0].rstrip("/")


def _place(address: str) -> str:
    return urlsplit(address).netloc
