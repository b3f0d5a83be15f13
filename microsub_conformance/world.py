"""The tools of a check: clients of one or two users, channels that are cleaned up, blogs, and waiting."""

from __future__ import annotations

from microsub_conformance.bench import Bench, Run
from microsub_conformance.client import Client
from microsub_conformance.site.blogs import SampleBlog
from microsub_conformance.site.library import Library
from microsub_conformance.timeline import Item, ids, unread_ids, walk
from microsub_conformance.verdict import Skip, Violation, expect


class World(Bench):
    """The argument of every check of Microsub: a `Bench` with clients and blogs.

    `second` is another user, `reader` the first user with a token that only has the scope `read`.
    `user_endpoint` is the form of the endpoint that names the first user.
    """

    def __init__(
        self,
        run: Run,
        user: Client,
        blogs: Library,
        *,
        second: Client | None = None,
        reader: Client | None = None,
        user_endpoint: str | None = None,
    ) -> None:
        super().__init__(run)
        self.user = user
        self.blogs = blogs
        self.user_endpoint = user_endpoint
        self._second = second
        self._reader = reader

    @property
    def second(self) -> Client:
        """The second user; only for requirements that need one."""
        return _given(self._second, "a second user")

    @property
    def reader(self) -> Client:
        """The first user with only the scope `read`; only for requirements that need it."""
        return _given(self._reader, "a token with the scope 'read'")

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


def _given(client: Client | None, what: str) -> Client:
    if client is None:
        raise Skip(f"needs {what}")
    return client
