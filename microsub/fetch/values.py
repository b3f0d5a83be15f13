"""Requests, results and settings of the one door out, as frozen values.

What publishers and networks do wrong is a `FetchFailed`, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, Protocol, get_args

from microsub import __version__

Network = IPv4Network | IPv6Network

# Feeds first, then pages, which may hold or name one; plain JSON last: where a page has such a form, it is for
# programs.
FEED_ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, text/html;q=0.6, application/xhtml+xml;q=0.6, application/json;q=0.5, "
    "*/*;q=0.1"
)
PAGE_ACCEPT = "text/html, application/xhtml+xml;q=0.9, */*;q=0.1"

HEAD_BYTES = 128 * 1024

Reason = Literal[
    "timeout",
    "connect",
    "dns",
    "tls",
    "blocked",
    "private",
    "too_large",
    "redirects",
    "http",
    "gone",
    "throttled",
    "protocol",
    "encoding",
    "bad_url",
    "local",
    "busy",
]
"""What stands between an address and its document. Two say nothing of the host, because no request was sent:
`local`, this process has no file descriptor left; `busy`, the share of the host, or of who asks, is used up.
`private`: a name leads to addresses that aren't asked, which people are told as `dns`.
"""
REASONS: frozenset[str] = frozenset(get_args(Reason))


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of one fetch, redirects included.

    `total` and `idle` are in seconds, `body` in bytes after decompression. `head` bounds, in bytes, what may arrive
    before the headers are complete, 1xx replies included.
    """

    total: float = 30.0
    idle: float = 10.0
    redirects: int = 5
    body: int = 10 * 1024 * 1024
    head: int = HEAD_BYTES


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How this instance goes out.

    `about` is the URL that the User-Agent names beside `user_agent`, or empty; `allow_private_networks` lists the
    networks that may be reached though they aren't public; `proxy` is an http or https URL of an outgoing proxy,
    itself exempt from the address check.
    """

    user_agent: str = f"microsub-server/{__version__}"
    about: str = "https://indieweb.org/Microsub"
    allow_private_networks: tuple[Network, ...] = ()
    proxy: str | None = None
    limits: FetchLimits = field(default_factory=FetchLimits)


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One GET.

    Validators are latin-1 text and go back byte for byte; `subscribers` is told to the publisher. `since` is for
    fetchers that keep copies (`cache.CachingFetcher`): who has looked at the document until that Unix time is answered
    with a copy only if it came later, and otherwise by the publisher. None: any fresh copy will do.
    """

    url: str
    etag: str | None = None
    last_modified: str | None = None
    accept: str = FEED_ACCEPT
    subscribers: int = 0
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document.

    `url` is the request's; `final_url` where the document was found, without credentials, the base for what it links
    to; `headers` have lower-case names, several values joined with a comma; `max_age` is how many seconds longer the
    publisher calls it fresh, or None; `moved_to` is the new address when every hop was a 301 or 308.

    `room` is what the body takes of the process's room for bodies, given back when the document is dropped.
    """

    url: str
    final_url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    content_type: str | None
    etag: str | None
    last_modified: str | None
    max_age: float | None
    moved_to: str | None = None
    room: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NotModified:
    """A 304: the validators still hold; `etag` and `last_modified` are to be sent next time."""

    url: str
    etag: str | None
    last_modified: str | None
    max_age: float | None
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """No document. `url` and `detail` may be shown and logged: credentials are masked.

    `retry_after` is in seconds from now, where the publisher named a time.
    """

    url: str
    reason: Reason
    detail: str
    status: int | None = None
    retry_after: float | None = None

    @property
    def ours(self) -> bool:
        """Whether nobody was asked, for a reason that says nothing of the address."""
        return self.reason in {"local", "busy"}

    @property
    def refused(self) -> bool:
        """Whether the address has something that isn't shown to programs like this."""
        return self.status in {401, 402, 403, 406, 429, 451}

    @property
    def lasting(self) -> bool:
        """Whether asking again in an hour would come to the same: it is the address, not the day."""
        if self.status is not None and self.reason in {"http", "gone"}:
            return 400 <= self.status < 500 and self.status not in {408, 425, 429}
        return self.reason in {"gone", "blocked", "private", "too_large", "redirects", "encoding", "bad_url"}

    @property
    def forbidden(self) -> bool:
        """Whether the settings of this process keep it from asking; another's may not."""
        return self.reason in {"blocked", "private"}

    @property
    def told(self) -> Reason:
        """The reason as people may read it: they don't learn which names there are inside."""
        return "dns" if self.reason == "private" else self.reason


FetchResult = Fetched | NotModified | FetchFailed


class Fetching(Protocol):
    """What fetches documents: `Fetcher`, or anything that answers like it."""

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """GET a document; failures are values."""
        ...


# --- requests to endpoints ----------------------------------------------------------------------------------------
#
# Any method, a form, a token; the reply whatever its status (RFC 9110, RFC 6750). A token and what stands in a form are
# secrets. They go to the one origin that they are meant for, by https, or in the clear to networks that the admin
# lists; never along with a redirect.

Method = Literal["GET", "HEAD", "POST"]


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Bounds of one exchange: `total` in seconds, `body` in bytes after decompression.

    With 0 bytes no body is read: the status alone counts. With -1 redirects the first reply is the last.
    """

    total: float = 5.0
    body: int = 64 * 1024
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class SentDocument:
    """A body for the recipient that named the address, with its type and `headers` of its own."""

    body: bytes = field(repr=False)
    content_type: str
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Sending:
    """One request to an endpoint.

    A `form` or a `document` makes sense in a POST alone; neither it nor `bearer` is shown by `repr`. `in_clear` says
    that nothing in the form is secret, so that it may go by http. `web_ports`: it goes to ports 80 and 443 alone, but
    in networks that the admin lists.
    """

    url: str
    method: Method = "GET"
    form: Mapping[str, str] | Sequence[tuple[str, str]] | None = field(default=None, repr=False)
    bearer: str | None = field(default=None, repr=False)
    accept: str = "application/json"
    limits: SendLimits = SendLimits()
    in_clear: bool = False
    web_ports: bool = False
    document: SentDocument | None = None

    @property
    def is_secret(self) -> bool:
        """Whether it holds what nobody on the way may read."""
        return self.bearer is not None or (self.form is not None and not self.in_clear)


@dataclass(frozen=True, slots=True)
class Hop:
    """A redirect: where it leads, without credentials, and whether for good (301, 308)."""

    url: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply of any status.

    `headers` have lower-case names, several values joined with a comma; `final_url` is where it came from, without
    credentials; `hops` are the redirects that led there.

    A POST follows none: its 3xx is an answer like any other. `room` is what the body takes of the process's room.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    final_url: str
    hops: tuple[Hop, ...] = ()
    room: object = field(default=None, compare=False, repr=False)

    @property
    def content_type(self) -> str | None:
        """The declared type, with its parameters."""
        return self.headers.get("content-type")


class Sender(Protocol):
    """What sends requests to endpoints: `Fetcher`, and what tests put in its place."""

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """Send a request; failures are values."""
        ...


class HopError(Exception):
    """One hop of a fetch can't be completed; the fetcher turns it into a `FetchFailed`.

    `retry_after` is in seconds from now, where it is known when asking again makes sense.
    """

    def __init__(self, reason: Reason, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after
