"""Actions of the Microsub endpoint, which features bring: their calls, their table, and common arguments.

Spec: https://indieweb.org/Microsub-spec
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from microsub.base.errors import InvalidRequest
from microsub.base.urls import LONGEST_FOLLOWED, web_address
from microsub.model.reader import GLOBAL, NAME, Credential, Grant
from microsub.web.params import Params, missing, wrong
from microsub.web.responses import HttpReply

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_ENTRIES = 1000
"""Items that one request may name: ten times the largest page."""

_ID = re.compile(r"[1-9][0-9]{0,18}\Z")

Verb = Literal["GET", "POST"]
Reply = Mapping[str, Any] | bytes
"""A JSON object, or its bytes if they were ready already."""
LaterReply = Callable[[], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose token is valid for its action.

    `user` is the token's, `now` Unix time in seconds.
    """

    params: Params
    user: str
    now: float


class Action(NamedTuple):
    """An action whose token is checked before it runs.

    `changes_topics`: the action may change documents of the user, which are then sent to their subscribers.
    """

    scope: str
    run: Callable[[Call], Awaitable[Reply]]
    changes_topics: bool = False


class FusedAction(NamedTuple):
    """A frequent reading action, which checks the token in its own round trip.

    It returns a large reply as a function: many finished replies waiting for the rate limit would fill memory.
    """

    scope: str
    run: Callable[[Params, Credential, float], Awaitable[tuple[Grant, Reply | LaterReply]]]


@dataclass(frozen=True, slots=True)
class StreamCall(Call):
    """A call whose reply continues for as long as the token is valid; `check` checks it again, and raises.

    `position` is where the client wants to continue, `network` the client's; `credential` is the token's.
    """

    credential: Credential
    position: str
    network: str
    check: Callable[[float], Awaitable[Grant]]


class StreamAction(NamedTuple):
    """An action whose reply continues until its client disconnects."""

    scope: str
    open: Callable[[StreamCall], Awaitable[HttpReply]]


Key = tuple[Verb, str, str]
"""HTTP method, `action`, and `method` or an empty string."""

Table = Mapping[Key, Action | FusedAction | StreamAction]
"""The actions by what selects them."""


# --- arguments


def channel_in(params: Params, *, allow_global: bool = True) -> str:
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
    """The same as `channel_in`, with `global` as the default."""
    return GLOBAL if params.text("channel") is None else channel_in(params)


def limit_in(params: Params, usual: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """The requested number of entries on a page, at most `most`."""
    text = params.text("limit")
    if text is None:
        return usual
    digits = text.lstrip("0")
    if not (text.isascii() and digits.isdecimal()):
        raise wrong("limit", text, f"a whole number from 1 to {most}")
    # Python refuses to convert numbers with too many digits.
    return most if len(digits) > len(str(most)) else min(int(digits), most)


def entries_in(params: Params) -> list[str]:
    """The item ids in `entry`, at most a thousand; malformed ids are left out."""
    found = params.many("entry")
    if not found:
        raise missing("entry", "the '_id' of one or more items")
    if len(found) > MAX_ENTRIES:
        raise InvalidRequest(f"'entry' names too many items: found {len(found)}, expected {MAX_ENTRIES} at most")
    return [entry for entry in found if _ID.match(entry)]


def url_in(params: Params) -> str:
    """The absolute http(s) URL in `url`, without white space around it.

    `feed:` URLs count as the URL in them.
    """
    found = params.need("url", "an absolute http or https URL")
    text = web_address(found)
    if text is None:
        raise wrong("url", found, f"an absolute http or https URL of at most {LONGEST_FOLLOWED} bytes")
    return text


def instant(seconds: float) -> str:
    """A Unix time as in replies: ISO 8601 in UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()
