"""The tools of a check: clients of one or two users, channels that are cleaned up, blogs, and waiting."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx

from microsub_conformance.client import Client
from microsub_conformance.site.blogs import SampleBlog
from microsub_conformance.site.library import Library
from microsub_conformance.site.publisher import FeedServer
from microsub_conformance.timeline import Item, ids, unread_ids, walk
from microsub_conformance.verdict import Skip, Unready, Violation, expect

T = TypeVar("T")
Cleanup = Callable[[], object]

SHORT_PATIENCE = 3.0
"""Seconds of a wait after the server has missed several full waits."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The resources of a run: the users' clients, the blogs, and how to make the server poll.

    `second` is another user, `reader` the first user with a token that only has the scope `read`. `poll_command`
    makes the server fetch a feed now; `{url}` in it stands for the feed. `patience` is the limit of a wait, in seconds.
    `user_endpoint` is the form of the endpoint that names the first user.
    """

    user: Client
    publisher: FeedServer
    blogs: Library
    run: str
    patience: float = 60
    second: Client | None = None
    reader: Client | None = None
    user_endpoint: str | None = None
    poll_command: tuple[str, ...] = ()


class World:
    """The argument of every check. What a check creates with it is removed after the check; what it creates inside
    `shared`, after the last check.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings
        self.user = surroundings.user
        self.blogs = surroundings.blogs
        self.publisher = surroundings.publisher
        self._cleanups: list[Cleanup] = []
        self._kept: list[Cleanup] = []
        self._shared: dict[str, object] = {}
        self._made = 0
        self._overdue = 0
        self._never_polls = False

    @property
    def second(self) -> Client:
        """The second user; only for requirements that need one."""
        return _given(self.around.second, "a second user")

    @property
    def reader(self) -> Client:
        """The first user with only the scope `read`; only for requirements that need it."""
        return _given(self.around.reader, "a token with the scope 'read'")

    def name(self, label: str = "") -> str:
        """A unique channel name."""
        self._made += 1
        return f"Conformance {self.around.run} {self._made} {label}".strip()

    def channel(self, label: str = "", client: Client | None = None) -> str:
        """Create a channel with a unique name; returns its uid."""
        return self.channel_named(self.name(label), client)

    def channel_named(self, name: str, client: Client | None = None) -> str:
        """Create a channel with this name, to be deleted afterwards; returns its uid."""
        client = client or self.user
        uid = client.post("channels", name=name).done().get("uid")
        if not isinstance(uid, str):
            raise Violation("the created channel with a string as 'uid'", uid)
        self.afterwards(lambda: client.post("channels", method="delete", channel=uid))
        return uid

    def afterwards(self, cleanup: Cleanup) -> None:
        """Do this after the check, however it ends."""
        self._cleanups.append(cleanup)

    def shared(self, name: str, make: Callable[[World], T]) -> T:
        """A situation shared by several requirements, set up once. Raises Unready if that failed."""
        if name not in self._shared:
            outer, self._cleanups = self._cleanups, []
            try:
                self._shared[name] = make(self)
            except (Violation, httpx.HTTPError) as problem:
                self._shared[name] = Unready(f"the situation '{name}' couldn't be set up: {problem}")
            except (Skip, Unready) as reason:
                self._shared[name] = reason
            finally:
                self._kept += self._cleanups
                self._cleanups = outer
        value = self._shared[name]
        if isinstance(value, (Unready, Skip)):
            raise value
        return value  # type: ignore[return-value]

    def tidy(self, everything: bool = False) -> None:
        """Remove what the last check created, and with `everything` also what was shared."""
        pending, self._cleanups = self._cleanups, []
        if everything:
            pending, self._kept = [*self._kept, *pending], []
        for cleanup in reversed(pending):
            with contextlib.suppress(Violation, httpx.HTTPError):
                cleanup()

    def until(
        self, probe: Callable[[], T | None], what: str, found: Callable[[], object] = str, limit: float | None = None
    ) -> T:
        """Probe until there is a result. Raises Violation with `what` after the run's patience, or `limit` seconds."""
        patience = self.around.patience if self._overdue < 3 else min(SHORT_PATIENCE, self.around.patience)
        patience = min(patience, limit or patience)
        deadline = time.monotonic() + patience
        pause = 0.03
        while True:
            value = probe()
            if value is not None:
                return value
            if time.monotonic() > deadline:
                self._overdue += 1
                raise Violation(f"{what} within {patience:g} seconds", found())
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    def items(self, channel: str, client: Client | None = None) -> list[Item]:
        """All items of a channel, newest first."""
        return walk(client or self.user, channel)

    def follow(self, channel: str, blog: SampleBlog, client: Client | None = None) -> None:
        """Follow `blog`."""
        (client or self.user).post("follow", channel=channel, url=blog.url).done()

    def fill(self, channel: str, blog: SampleBlog, client: Client | None = None) -> list[Item]:
        """Follow `blog` and wait until its posts are in the channel; returns all items of the channel."""
        wanted = len(self.items(channel, client)) + len(blog.posts)
        self.follow(channel, blog, client)
        return self.await_items(channel, wanted, client)

    def await_items(self, channel: str, wanted: int, client: Client | None = None) -> list[Item]:
        """Wait until the channel has at least `wanted` items; returns them."""
        seen: list[Item] = []

        def probe() -> list[Item] | None:
            seen[:] = self.items(channel, client)
            return list(seen) if len(seen) >= wanted else None

        return self.until(probe, f"{wanted} items in the channel", lambda: f"{len(seen)} items")

    def filled(self, blog: SampleBlog, client: Client | None = None) -> tuple[str, list[Item]]:
        """Create a channel that follows `blog` and has its posts; returns its uid and items."""
        channel = self.channel(client=client)
        return channel, self.fill(channel, blog, client)

    def unread_channel(self, blog: SampleBlog | None = None, client: Client | None = None) -> tuple[str, list[Item]]:
        """As `filled`, with every item unread; `blog` is the one of eight posts unless given."""
        blog = blog or self.blogs.eight
        client = client or self.user
        channel, items = self.filled(blog, client)
        read = [identifier for identifier in ids(items) if identifier not in unread_ids(items)]
        if read:
            client.post("timeline", method="mark_unread", channel=channel, entry=read).done()
            items = self.items(channel, client)
        expect(len(unread_ids(items)) == len(items), "all items unread after 'mark_unread'", items)
        return channel, items

    def unread(self, channel: str, client: Client | None = None) -> int:
        """The unread count in the list of channels."""
        for entry in (client or self.user).get("channels").listed("channels"):
            if entry.get("uid") == channel:
                count = entry.get("unread")
                if not isinstance(count, int) or isinstance(count, bool):
                    raise Skip(f"this server doesn't show unread counts as numbers: {count!r}")
                return count
        raise Violation(f"the channel {channel} in the list of channels", "it is missing")

    def publish(self, blog: SampleBlog) -> None:
        """Serve `blog` in its present state, and wait until the server has fetched it.

        Raises Skip if the server doesn't poll within the run's patience.
        """
        seen = len(self.publisher.visits(blog.path))
        self.publisher.put(blog.path, blog.document())
        if self.around.poll_command:
            self._poll(blog.url)
        elif self._never_polls:
            raise Skip("the server did not poll a changed feed earlier; see --poll-command")
        if not self.publisher.wait_for_visit(blog.path, seen, self.around.patience):
            self._never_polls = not self.around.poll_command
            raise Skip(f"the server did not poll within {self.around.patience:g} seconds; see --poll-command")

    def _poll(self, url: str) -> None:
        command = [part.replace("{url}", url) for part in self.around.poll_command]
        try:
            done = subprocess.run(command, capture_output=True, timeout=max(self.around.patience, 30), check=False)  # noqa: S603 - the person who runs the suite gave it
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise Unready(f"the poll command could not run: {problem}") from problem
        if done.returncode != 0:
            raise Unready(f"the poll command failed: {done.stderr.decode('utf-8', 'replace')[-400:]}")


def _given(client: Client | None, what: str) -> Client:
    if client is None:
        raise Skip(f"needs {what}")
    return client
