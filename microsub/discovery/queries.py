"""Search queries as addresses to fetch.

They are URLs, bare domains, handles of the fediverse and of Bluesky, `r/name` of Reddit, and the `feed:` family of
schemes. Everything else is search words.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import orjson

from microsub.base.urls import MAX_URL, is_usable, parts_of, safe_url
from microsub.formats.feed_links import from_subscribe_scheme, podcast_interface
from microsub.parsing.task import Task

MAX_QUERY = MAX_URL

_HOST = r"(?:[^\s/?#@:.]+\.)+[^\s/?#@:.\d][^\s/?#@:.]+"
_DOMAIN = re.compile(rf"{_HOST}(?::\d{{1,5}})?(?:[/?#]\S*)?\Z")
_LOCAL = re.compile(r"(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?(?:[/?#]\S*)?\Z")
_ACCOUNT = re.compile(rf"(?i)(?:acct:@?|@)?(?P<who>[\w.+-]+)@(?P<host>{_HOST}(?::\d{{1,5}})?)\Z")
_BLUESKY = re.compile(rf"@(?P<domain>{_HOST})\Z")
_COMMUNITY = re.compile(rf"!(?P<who>\w+)@(?P<host>{_HOST}(?::\d{{1,5}})?)\Z")
_PASTED = re.compile(
    r"<(?P<inside>\S+)>|\[[^\]]*\]\((?P<linked>[^\s()]+(?:\([^\s()]*\)[^\s()]*)*)\)|[\"'“„](?P<quoted>\S+)[\"'”“]"
)
_REDDIT = re.compile(r"/?(?P<kind>r|u|user)/(?P<name>[\w+-]{2,100})/?\Z")
_PROFILE_RELS = ("http://webfinger.net/rel/profile-page", "http://schemas.google.com/g/2010#updates-from")
_WEBFINGER = "/.well-known/webfinger"


def addresses(query: str) -> list[str]:
    """The addresses to fetch for a query, in order; none for words.

    A URL is used as it is; a bare domain is tried over https, then http; a handle leads to its WebFinger document (see
    `profile_in`), then to the usual place of profiles; the page of a podcast also to the interface that knows its feed.
    Brackets and quotation marks around an address, and the Markdown of a link, make no difference.
    """
    text = query.strip()
    if pasted := _PASTED.fullmatch(text):
        text = next(part for part in pasted.groups() if part)
    text = from_subscribe_scheme(text)
    if "://" in text:
        if not is_usable(text) or re.search(r"\s", text):
            return []
        interface = podcast_interface(text)
        return [text] if interface is None else [text, interface]
    if match := _COMMUNITY.match(text):
        return [f"https://{match['host']}/c/{match['who']}"]
    if match := _ACCOUNT.match(text):
        who, host = match["who"], match["host"]
        resource = quote(f"acct:{who}@{host}", safe=":@")
        return [f"https://{host}{_WEBFINGER}?resource={resource}", f"https://{host}/@{who}"]
    if match := _BLUESKY.match(text):
        # A domain that is used as a handle may also have a website.
        return [f"https://{match['domain']}", f"https://bsky.app/profile/{match['domain']}"]
    if match := _REDDIT.match(text):
        return [f"https://www.reddit.com/{'r' if match['kind'] == 'r' else 'user'}/{match['name']}"]
    if _LOCAL.match(text) or _DOMAIN.match(text):
        return [f"https://{text}", f"http://{text}"]
    return []


def is_account(query: str) -> bool:
    """Whether a query is an account on a host, as in the fediverse."""
    return bool(_ACCOUNT.match(query.strip()))


def is_unusable_url(query: str) -> bool:
    """Whether a query looks like a URL, but can't be fetched."""
    return bool(re.match(r"(?i)\s*[a-z][a-z0-9+.-]*://", query)) and not addresses(query)


def profile_in(body: bytes, url: str) -> str | None:
    """The profile page named by the WebFinger document (RFC 7033) of `url`; None for others."""
    try:
        if parts_of(url).path != _WEBFINGER:
            return None
        links = orjson.loads(body)["links"]
        named = {link["rel"]: link["href"] for link in reversed(links) if {"rel", "href"} <= link.keys()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    found = next((page for rel in _PROFILE_RELS if (page := safe_url(_text(named.get(rel)), url))), None)
    # A profile that is itself a WebFinger document would lead in a circle.
    return found if found and parts_of(found).path != _WEBFINGER else None


PROFILE_IN = Task(profile_in)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
