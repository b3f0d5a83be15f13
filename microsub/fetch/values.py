"""Requests, results and settings of outgoing HTTP, as frozen values.

Mistakes of publishers and networks are returned as `FetchFailed`, never raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, NamedTuple, Protocol, get_args

from microsub import __version__
from microsub.model.settings import UserAgent

Network = IPv4Network | IPv6Network

# Feeds first, then pages, which may contain or link to a feed. Plain JSON comes last: a page's JSON form is usually
# meant for programs.
FEED_ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, text/html;q=0.6, application/xhtml+xml;q=0.6, application/json;q=0.5, "
    "*/*;q=0.1"
)
PAGE_ACCEPT = "text/html, application/xhtml+xml;q=0.9, */*;q=0.1"

HEAD_BYTES = 128 * 1024
"""Maximum bytes that arrive before the headers are complete, 1xx replies included."""
TOTAL_SECONDS = 30.0
LARGEST_BODY = 10 * 1024 * 1024

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
    "sign_in",
]
"""The reason why a document couldn't be fetched. Two don't concern the host, because no request was sent: with `local`
this process has no file descriptor left, with `busy` the share of the host or of the requester is used up.
`private`: a name resolves to addresses that aren't allowed; users see it as `dns`. `sign_in`: the sealed credentials
that the address names can't be read.
"""
REASONS: frozenset[str] = frozenset(get_args(Reason))


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How this instance sends requests.

    `about` is the URL that the User-Agent names next to `user_agent`, or empty. `allow_private_networks` lists networks
    that may be reached although they aren't public. `proxy` is the http or https URL of an outgoing proxy; the proxy
    itself is exempt from the address check.

    One fetch with its redirects may take `total` seconds, each of its waits `idle` seconds, and its `body` that many
    bytes after decompression.
    """

    user_agent: str = f"microsub-server/{__version__}"
    about: str = "https://indieweb.org/Microsub"
    allow_private_networks: tuple[Network, ...] = ()
    proxy: str | None = None
    total: float = TOTAL_SECONDS
    idle: float = 10.0
    body: int = LARGEST_BODY


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One GET.

    Validators are latin-1 text and are sent back byte for byte; the User-Agent has the number of `subscribers`.
    With `signs_in`, the sealed credentials that the URL names are sent; without, such a URL is asked for without them.
    `since` is for fetchers that keep copies (`cache.CachingFetcher`): a copy from after that Unix time is returned,
    otherwise the publisher is asked. None: any fresh copy will do.
    """

    url: str
    etag: str | None = None
    last_modified: str | None = None
    accept: str = FEED_ACCEPT
    subscribers: int = 0
    since: float | None = None
    user_agent: UserAgent | None = None
    signs_in: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document.

    `url` is the request's. `final_url` is where the document was found, without credentials; it is the base of relative
    links. `headers` have lower-case names, several values joined with a comma. `max_age` is how many more seconds the
    publisher calls it fresh, or None. `moved_to` is the new address if every hop was a 301 or 308.

    `room` is the body's share of the process's memory for bodies, returned when the document is dropped.
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
    """A 304: the validators are still valid; the next request sends `etag` and `last_modified`."""

    url: str
    etag: str | None
    last_modified: str | None
    max_age: float | None
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """No document. `url` and `detail` may be shown and logged: credentials are masked.

    `retry_after` is in seconds from now, if the publisher named a time.
    """

    url: str
    reason: Reason
    detail: str
    status: int | None = None
    retry_after: float | None = None

    @property
    def ours(self) -> bool:
        """Whether no request was sent, for a reason that doesn't concern the address."""
        return self.reason in {"local", "busy"}

    @property
    def refused(self) -> bool:
        """Whether the server refuses to show the document to programs like this one."""
        return self.status in {401, 402, 403, 406, 429, 451}

    @property
    def lasting(self) -> bool:
        """Whether a retry in an hour would fail the same way, because the address itself is the cause."""
        if self.status is not None and self.reason in {"http", "gone"}:
            return 400 <= self.status < 500 and self.status not in {408, 425, 429}
        return self.reason in {"gone", "blocked", "private", "too_large", "redirects", "encoding", "bad_url", "sign_in"}

    @property
    def forbidden(self) -> bool:
        """Whether this process's settings forbid the request; another process's may allow it."""
        return self.reason in {"blocked", "private"}

    @property
    def told(self) -> Reason:
        """The reason for users: it doesn't reveal which internal names exist."""
        return "dns" if self.reason == "private" else self.reason


FetchResult = Fetched | NotModified | FetchFailed


class Fetching(Protocol):
    """A fetcher of documents: `Fetcher`, or anything with the same interface."""

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """GET a document; failures are values."""
        ...


# --- requests to endpoints ----------------------------------------------------------------------------------------
#
# Any method, a form, a token; the reply is returned whatever its status (RFC 9110, RFC 6750). Tokens and form values
# are secrets. They are sent only to the one origin they are meant for, over https, or in the clear to networks that the
# admin lists. They never follow a redirect.

Method = Literal["GET", "HEAD", "POST"]


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Bounds of one exchange: `total` in seconds, `body` in bytes after decompression.

    With 0 bytes, no body is read and only the status counts. With -1 redirects, the first reply is returned as it is.
    """

    total: float = 5.0
    body: int = 64 * 1024
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Sending:
    """One request to an endpoint.

    `form`, or else `body` with its `content_type` and extra `headers`, is only for POST; `repr` shows neither them nor
    `bearer`. `in_clear`: nothing in the form is secret, so it may be sent over http. `web_ports`: only ports 80 and 443
    are allowed, except in networks that the admin lists.
    """

    url: str
    method: Method = "GET"
    form: Mapping[str, str] | Sequence[tuple[str, str]] | None = field(default=None, repr=False)
    bearer: str | None = field(default=None, repr=False)
    accept: str = "application/json"
    limits: SendLimits = SendLimits()
    in_clear: bool = False
    web_ports: bool = False
    body: bytes | None = field(default=None, repr=False)
    content_type: str = "application/x-www-form-urlencoded"
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)

    @property
    def is_secret(self) -> bool:
        """Whether the request contains secrets, which must not be readable in transit."""
        return self.bearer is not None or (self.form is not None and not self.in_clear)


class Hop(NamedTuple):
    """A redirect: its target, without credentials, and whether it is permanent (301, 308)."""

    url: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply of any status.

    `headers` have lower-case names, several values joined with a comma. `final_url` is the address that replied,
    without credentials. `hops` are the redirects that led there.

    A POST follows no redirects: a 3xx is returned like any other reply. `room` is the body's share of memory.
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


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """Why a request to another server had no usable result, as a sentence for people; `detail` is for the log.

    `lasting`: a retry would fail too. `ours`: no request was sent, so it doesn't count as a try. `retry_after`: the
    seconds for which the server wants no requests.
    """

    why: str
    lasting: bool = False
    retry_after: float | None = None
    ours: bool = False
    detail: str = ""


class Sender(Protocol):
    """A sender of requests to endpoints: `Fetcher`, or a test double."""

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """Send a request; failures are values."""
        ...


class HopError(Exception):
    """One hop of a fetch can't be completed; the fetcher turns it into a `FetchFailed`.

    `retry_after` is in seconds from now, if it is known when a retry makes sense.
    """

    def __init__(self, reason: Reason, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after
