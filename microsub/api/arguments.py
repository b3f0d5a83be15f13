"""The arguments of an action: the call, and its parameters with their types."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from microsub.base.errors import InvalidRequest
from microsub.base.urls import LONGEST_FOLLOWED, web_address
from microsub.discovery.search import PREVIEWED
from microsub.feeds.internal import InternalAddress
from microsub.model.plaintext import unprintable
from microsub.model.reader import GLOBAL, NAME, Credential, Cursor, Grant, Order, PageQuery, PostSearchRequest, View
from microsub.server.surface import Services
from microsub.timelines.channels import MOST_OF_NAME
from microsub.timelines.sync.arrivals import ArrivalQuery
from microsub.web.params import TRUTHS, Params, missing, wrong
from microsub.web.responses import StreamReply

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
DEFAULT_IDS = 1000
MAX_IDS = 10_000
"""Items in a reply that has only ids and states."""
MAX_ENTRIES = 1000
"""Items that one request may name: ten times the largest page."""

_ORDERS: dict[str, Order] = {"newest": "newest", "relevance": "relevance"}
_ID = re.compile(r"[1-9][0-9]{0,18}\Z")


def channel(params: Params, *, allow_global: bool = True) -> str:
    """The channel uid in `channel`; `global` only where it is allowed.

    The store checks whether the channel exists.
    """
    uid = params.text("channel")
    if uid is None:
        raise missing("channel", "the uid of a channel")
    if uid == GLOBAL and not allow_global:
        raise wrong("channel", uid, "the uid of one channel; 'global' means all of them")
    if not NAME.match(uid):
        raise wrong("channel", uid, "a uid made of 1 to 64 letters, digits, '-' and '_'")
    return uid


def channel_or_global(params: Params) -> str:
    """The same as `channel`, with `global` as the default."""
    return GLOBAL if params.text("channel") is None else channel(params)


def page_query(params: Params) -> PageQuery:
    """The requested page of a timeline."""
    before, after = _cursors(params)
    return PageQuery(
        limit=limit(params),
        before=None if before is None else Cursor.decode(before, "before"),
        after=None if after is None else Cursor.decode(after, "after"),
        view=_view(params),
        source=_source(params),
    )


def post_search(params: Params) -> PostSearchRequest:
    """The requested search in posts."""
    before, after = _cursors(params)
    order = _ORDERS.get(params.text("sort") or "newest")
    if order is None:
        raise wrong("sort", params.text("sort") or "", f"one of {', '.join(_ORDERS)}")
    return PostSearchRequest(params.need("query", "words to look for"), limit(params), before, after, order)


def arrival_query(params: Params) -> ArrivalQuery:
    """The requested piece of the order of arrival."""
    order = params.text("order") or "newest"
    if order not in ("newest", "oldest"):
        raise wrong("order", order, "'newest' or 'oldest', which comes first")
    after = params.text("after")
    return ArrivalQuery(
        limit=limit(params, DEFAULT_IDS, MAX_IDS),
        oldest_first=order == "oldest",
        after="" if after is None else Cursor.decode(after, "after").score,
        view=_view(params),
    )


def entries(params: Params) -> list[str]:
    """The item ids in `entry`, at most a thousand; malformed ids are left out."""
    found = params.many("entry")
    if not found:
        raise missing("entry", "the '_id' of one or more items")
    if len(found) > MAX_ENTRIES:
        raise InvalidRequest(f"'entry' names too many items: found {len(found)}, expected {MAX_ENTRIES} at most")
    return [entry for entry in found if _ID.match(entry)]


def name(params: Params) -> str:
    """The channel name in `name`, without white space around it."""
    found = params.need("name", "a name for the channel")
    text = " ".join(found.split())
    if not text or len(text) > MOST_OF_NAME or unprintable(text):
        raise wrong("name", found, f"1 to {MOST_OF_NAME} printable characters")
    return text


def url(params: Params, parameter: str = "url") -> str:
    """The absolute http(s) URL in `parameter`, without white space around it.

    `feed:` URLs count as the URL in them.
    """
    found = params.need(parameter, "an absolute http or https URL")
    text = web_address(found)
    if text is None:
        raise wrong(parameter, found, f"an absolute http or https URL of at most {LONGEST_FOLLOWED} bytes")
    return text


def followed_url(params: Params) -> str:
    """The address in `url` of a followed feed: as in `url`, or an internal one."""
    found = (params.text("url") or "").strip()
    return found if InternalAddress.of(found) is not None else url(params)


def limit(params: Params, usual: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """The requested number of entries on a page, at most `most`."""
    text = params.text("limit")
    if text is None:
        return usual
    digits = text.lstrip("0")
    if not (text.isascii() and digits.isdecimal()):
        raise wrong("limit", text, f"a whole number from 1 to {most}")
    # Python refuses to convert numbers with too many digits.
    return most if len(digits) > len(str(most)) else min(int(digits), most)


def _cursors(params: Params) -> tuple[str | None, str | None]:
    before = params.text("before")
    after = params.text("after")
    if before is not None and after is not None:
        raise InvalidRequest("'before' and 'after' can't be used together: found both, expected one of them")
    return before, after


def _view(params: Params) -> View:
    text = params.text("is_read")
    if text is None:
        return "all"
    if (is_read := TRUTHS.get(text.lower())) is None:
        raise wrong("is_read", text, "'true' or 'false'")
    return "read" if is_read else "unread"


def _source(params: Params) -> str | None:
    text = params.text("source")
    if text is not None and not _ID.match(text):
        raise wrong("source", text, "the '_source' of an item")
    return text


def instant(seconds: float) -> str:
    """A Unix time as in replies: ISO 8601 in UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


Verb = Literal["GET", "POST"]
Reply = Mapping[str, Any] | bytes
"""A JSON object, or its bytes if they were ready already."""
LaterReply = Callable[[], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose token is valid for its action.

    `user` is the token's, `now` Unix time in seconds.
    """

    services: Services
    params: Params
    user: str
    now: float


async def picked(call: Call) -> tuple[list[str], list[str]]:
    """The items that the posts of previews in `entry` have become, and the ids of unknown ones."""
    ids = [entry for entry in call.params.many("entry") if entry.startswith(PREVIEWED)]
    kept = await call.services.picked.keep(call.user, ids, call.now) if ids else {}
    return list(kept.values()), [one for one in ids if one not in kept]


@dataclass(frozen=True, slots=True)
class Action:
    """An action whose token is checked before it runs.

    `changes_topics`: the action may change documents of the user, which are then sent to their subscribers.
    """

    scope: str
    run: Callable[[Call], Awaitable[Reply]]
    changes_topics: bool = False


@dataclass(frozen=True, slots=True)
class FusedAction:
    """A frequent reading action, which checks the token in its own round trip.

    It returns a large reply as a function: many finished replies waiting for the rate limit would fill memory.
    """

    scope: str
    run: Callable[[Services, Params, Credential, float], Awaitable[tuple[Grant, Reply | LaterReply]]]


@dataclass(frozen=True, slots=True)
class StreamCall(Call):
    """A call whose reply continues for as long as the token is valid; `check` checks it again, and raises.

    `position` is where the client wants to continue, `network` the client's; `credential` is the token's.
    """

    credential: Credential
    position: str
    network: str
    check: Callable[[float], Awaitable[Grant]]


@dataclass(frozen=True, slots=True)
class StreamAction:
    """An action whose reply continues until its client disconnects."""

    scope: str
    open: Callable[[StreamCall], Awaitable[StreamReply]]


Key = tuple[Verb, str, str]
"""HTTP method, `action`, and `method` or an empty string."""

Table = Mapping[Key, Action | FusedAction | StreamAction]
"""The actions by what selects them."""
