"""The arguments of reading actions: parameters with their types."""

from __future__ import annotations

import re

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import unprintable
from microsub.feeds import InternalAddress
from microsub.model.reader import Cursor, Order, PageQuery, PostSearchRequest, View
from microsub.timelines import MOST_OF_NAME, ArrivalQuery
from microsub.web.actions import limit_in, url_in
from microsub.web.params import TRUTHS, Params, wrong

DEFAULT_IDS = 1000
MAX_IDS = 10_000
"""Items in a reply that has only ids and states."""

_ORDERS: dict[str, Order] = {"newest": "newest", "relevance": "relevance"}
_ID = re.compile(r"[1-9][0-9]{0,18}\Z")


def page_query(params: Params) -> PageQuery:
    """The requested page of a timeline."""
    before, after = _cursors(params)
    return PageQuery(
        limit=limit_in(params),
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
    counted = params.text("count") or "false"
    if counted.lower() not in TRUTHS:
        raise wrong("count", counted, "'true' or 'false'")
    words = params.need("query", "words to look for")
    return PostSearchRequest(words, limit_in(params), before, after, order, TRUTHS[counted.lower()])


def arrival_query(params: Params) -> ArrivalQuery:
    """The requested piece of the order of arrival."""
    order = params.text("order") or "newest"
    if order not in ("newest", "oldest"):
        raise wrong("order", order, "'newest' or 'oldest', which comes first")
    after = params.text("after")
    return ArrivalQuery(
        limit=limit_in(params, DEFAULT_IDS, MAX_IDS),
        oldest_first=order == "oldest",
        after="" if after is None else Cursor.decode(after, "after").score,
        view=_view(params),
    )


def name(params: Params) -> str:
    """The channel name in `name`, without white space around it."""
    found = params.need("name", "a name for the channel")
    text = " ".join(found.split())
    if not text or len(text) > MOST_OF_NAME or unprintable(text):
        raise wrong("name", found, f"1 to {MOST_OF_NAME} printable characters")
    return text


def followed_url(params: Params) -> str:
    """The address in `url` of a followed feed: as in `url`, or an internal one."""
    found = (params.text("url") or "").strip()
    return found if InternalAddress.of(found) is not None else url_in(params)


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
