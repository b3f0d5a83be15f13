"""What people type to find a feed, as the addresses to look at: URLs, bare domains, handles of the fediverse and of
Bluesky, `r/name` of Reddit, and the `feed:` family of schemes. Everything else is words.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import orjson

from microsub.kit.urls import MAX_URL, safe_url

MAX_QUERY = MAX_URL

_HOST = r"(?:[^\s/?#@:.]+\.)+[^\s/?#@:.\d][^\s/?#@:.]+"
_DOMAIN = re.compile(rf"{_HOST}(?::\d{{1,5}})?(?:[/?#]\S*)?\Z")
_LOCAL = re.compile(r"(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?(?:[/?#]\S*)?\Z")
_ACCOUNT = re.compile(rf"(?i)(?:acct:@?|@)?(?P<who>[\w.+-]+)@(?P<host>{_HOST}(?::\d{{1,5}})?)\Z")
_BLUESKY = re.compile(rf"@(?P<domain>{_HOST})\Z")
_REDDIT = re.compile(r"/?(?P<kind>r|u|user)/(?P<name>[\w+-]{2,100})/?\Z")

# Schemes that ask for a subscription; iTunes and old readers register them. The address behind may have its own.
_SUBSCRIBE = re.compile(r"(?i)\s*(?:feed|rss|itpcs?|pcast|podcasts?):(?://)?(?=[^/\s])")
_PROFILE_RELS = ("http://webfinger.net/rel/profile-page", "http://schemas.google.com/g/2010#updates-from")
_WEBFINGER = "/.well-known/webfinger"


def addresses(query: str) -> list[str]:
    """What to look at for a query, in turn; nothing for words.

    A URL stands for itself; a bare domain is tried under https and then http; a handle leads to its WebFinger document
    (see `profile_in`) and then to where profiles usually are.
    """
    text = from_subscribe_scheme(query.strip())
    scheme, separator, _ = text.partition("://")
    if separator:
        return [text] if scheme.lower() in {"http", "https"} and not re.search(r"\s", text) and _has_host(text) else []
    if match := _ACCOUNT.match(text):
        who, host = match["who"], match["host"]
        resource = quote(f"acct:{who}@{host}", safe=":@")
        return [f"https://{host}{_WEBFINGER}?resource={resource}", f"https://{host}/@{who}"]
    if match := _BLUESKY.match(text):
        # A domain that serves as a handle may have a site too.
        return [f"https://{match['domain']}", f"https://bsky.app/profile/{match['domain']}"]
    if match := _REDDIT.match(text):
        return [f"https://www.reddit.com/{'r' if match['kind'] == 'r' else 'user'}/{match['name']}"]
    if _LOCAL.match(text) or _DOMAIN.match(text):
        return [f"https://{text}", f"http://{text}"]
    return []


def is_account(query: str) -> bool:
    """Whether a query is somebody's account on a host, as on the fediverse."""
    return bool(_ACCOUNT.match(query.strip()))


def is_unusable_url(query: str) -> bool:
    """Whether a query is a URL by its looks, and none that anybody could look at."""
    return bool(re.match(r"(?i)\s*[a-z][a-z0-9+.-]*://", query)) and not addresses(query)


def from_subscribe_scheme(url: str) -> str:
    """The web address in a `feed:` URL and its like; any other text as it is."""
    match = _SUBSCRIBE.match(url)
    if match is None:
        return url
    rest = url[match.end() :]
    return rest if re.match(r"(?i)https?://", rest) else f"http://{rest}"


def profile_in(body: bytes, url: str) -> str | None:
    """The profile page that the WebFinger document (RFC 7033) from `url` names; None for any other document."""
    try:
        if urlsplit(url).path != _WEBFINGER:
            return None
        links = orjson.loads(body)["links"]
        named = {link["rel"]: link["href"] for link in reversed(links) if {"rel", "href"} <= link.keys()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    found = next((page for rel in _PROFILE_RELS if (page := safe_url(_text(named.get(rel)), url))), None)
    # One that names itself, or another, would lead in a circle.
    return found if found and urlsplit(found).path != _WEBFINGER else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:
        return False
