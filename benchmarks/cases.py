"""The requests that are measured, and checks of their replies."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load import Target
from benchmarks.report import FOREIGN as FOREIGN_NAME
from benchmarks.report import PAGE as PAGE_NAME
from benchmarks.shelves import CHANNELS, HOME, PAGE, Shelf, is_read


class WrongAnswerError(Exception):
    """The server's reply doesn't match the filled data, so its speed is meaningless."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One kind of request on one shelf. `aim` is the wanted ratio to static bytes of the same size, if any.

    With `foreign`, the request has a token of another provider and goes to the endpoint that names the user.
    """

    name: str
    shelf: Shelf
    query: str
    check: Callable[[Shelf, Mapping[str, Any]], None]
    aim: float | None = None
    marks: bool = False
    foreign: bool = False

    @property
    def token(self) -> str:
        """The request's token."""
        return self.shelf.foreign if self.foreign else self.shelf.token

    def at(self, endpoint: str) -> str:
        """The request's address."""
        return f"{endpoint}/{self.shelf.user}" if self.foreign else endpoint

    def target(self, endpoint: str, folder: Path, skip: int = 0) -> Target:
        """The request for a load generator; bodies of POSTs are in `folder`."""
        headers = (f"Authorization: Bearer {self.token}",)
        if self.marks:
            return Target(endpoint, headers, folder / f"marks-{self.shelf.size}.txt", skip)
        return Target(f"{self.at(endpoint)}?{self.query}", headers)


def cases(shelf: Shelf) -> tuple[Case, ...]:
    """All requests that are measured on a shelf; the one that writes comes last."""
    timeline = f"action=timeline&channel={HOME}&limit={PAGE}"
    deep = f"{timeline}&after={shelf.cursor(shelf.middle)}"
    return (
        Case(PAGE_NAME, shelf, timeline, _newest_page, aim=0.30),
        Case(FOREIGN_NAME, shelf, timeline, _newest_page, foreign=True),
        Case("deep page", shelf, deep, _deep_page),
        Case("unread view", shelf, f"{timeline}&is_read=false", _unread_page),
        Case("channel list", shelf, "action=channels", _channel_list, aim=0.40),
        Case("mark read", shelf, "", _marked, marks=True),
    )


def write_marks(shelf: Shelf, folder: Path) -> int:
    """Write the bodies for `mark read`: each entry is marked read, then unread again. Returns their number."""
    entries = shelf.to_mark()
    common = f"action=timeline&channel={HOME}"
    lines = [f"{common}&method={method}&entry={item}\n" for method in ("mark_read", "mark_unread") for item in entries]
    (folder / f"marks-{shelf.size}.txt").write_text("".join(lines))
    return len(lines)


def ask(case: Case, endpoint: str, body: bytes | None = None) -> bytes:
    """The reply to one request of the case, checked. Raises WrongAnswerError."""
    url = f"{case.at(endpoint)}?{case.query}" if case.query else endpoint
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {case.token}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as reply:
        answer: bytes = reply.read()
    case.check(case.shelf, json.loads(answer))
    return answer


def _expect(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise WrongAnswerError(f"{what}: found {str(found)[:300]}, expected {str(expected)[:300]}")


def _page(shelf: Shelf, reply: Mapping[str, Any], positions: Sequence[int]) -> None:
    items = reply["items"]
    _expect([item["_id"] for item in items], [shelf.ids[at] for at in positions], "ids")
    _expect([item["_is_read"] for item in items], [is_read(at) for at in positions], "read flags")
    _expect({item["_channel"]["uid"] for item in items}, {HOME}, "channels")
    _expect("after" in reply["paging"], True, "paging")
    _expect(all(item["content"]["html"] and item["published"] for item in items), True, "content")


def _newest_page(shelf: Shelf, reply: Mapping[str, Any]) -> None:
    _page(shelf, reply, range(PAGE))


def _deep_page(shelf: Shelf, reply: Mapping[str, Any]) -> None:
    _page(shelf, reply, range(shelf.middle + 1, shelf.middle + 1 + PAGE))


def _unread_page(shelf: Shelf, reply: Mapping[str, Any]) -> None:
    _page(shelf, reply, [at for at in range(2 * PAGE) if not is_read(at)][:PAGE])


def _channel_list(shelf: Shelf, reply: Mapping[str, Any]) -> None:
    channels = reply["channels"]
    _expect(len(channels), CHANNELS, "number of channels")
    counts = {channel["uid"]: channel["unread"] for channel in channels}
    _expect(counts[HOME], shelf.size - len(range(0, shelf.size, 3)), "unread items")


def _marked(_: Shelf, reply: Mapping[str, Any]) -> None:
    _expect(reply, {"result": "ok", "updated": 1}, "reply to a mark")
