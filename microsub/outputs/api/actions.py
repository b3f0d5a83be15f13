"""The action `outputs` of the Microsub endpoint, an extension: a user's output feeds and their items.

All of it, including the lists, needs the scope `channels`: the lists show addresses, which outlive the token.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from microsub.accounts import Most
from microsub.base.urls import MAX_URL, is_usable
from microsub.configuration.model import LANGUAGE, MOST_IMPRESSIONS, OutputConfig, Republish
from microsub.feeds import OutputFeed, require_name, seconds_of
from microsub.model.query import parsed
from microsub.outputs.contents import Edited, OutputContents
from microsub.outputs.store import OutputFeeds
from microsub.timelines import MOST_OF_NAME, Channels
from microsub.web.actions import Action, Call, Reply, Table, channel_in, entries_in, limit_in
from microsub.web.params import TRUTHS, Params, wrong

Picked = Callable[[str, Sequence[str], float], Awaitable[tuple[list[str], list[str]]]]
"""User, entries, Unix time → the items that posts of previews among the entries have become, and unknown ids."""

SCOPE = "channels"
MOST_OF_DESCRIPTION = 2000


def _edited(done: Edited, unknown: Sequence[str] = ()) -> Reply:
    changed, strangers = done
    names = [*strangers, *unknown]
    return {"result": "ok", "updated": changed, **({"unknown": names} if names else {})}


def _name(params: Params) -> str:
    return require_name(params.need("output", "the name of an output feed"))


def output_settings(params: Params, before: OutputConfig, now: float) -> OutputConfig:
    """`before` changed by the parameters of a request or the fields of a form. Raises InvalidRequest."""
    given: dict[str, Any] = {}
    for name, most in {"title": MOST_OF_NAME, "author": MOST_OF_NAME, "description": MOST_OF_DESCRIPTION}.items():
        if (words := params.text(name)) is not None:
            given[name] = " ".join(words.split())
            if not 0 < len(given[name]) <= most or not given[name].isprintable():
                raise wrong(name, words, f"1 to {most} printable characters")
    if (image := params.text("image")) is not None:
        if not is_usable(image) or len(image) > MAX_URL:
            raise wrong("image", image, f"an http or https URL of at most {MAX_URL} characters")
        given["image"] = image
    if (language := params.text("language")) is not None:
        if not re.fullmatch(LANGUAGE, language):
            raise wrong("language", language, "a language tag such as en or pt-BR")
        given["language"] = language
    if params.text("channel") is not None:
        given["channel"] = channel_in(params, allow_global=False)
    if (search := params.text("search")) is not None:
        parsed(search, now)
        given["search"] = search
    if (count := params.text("max_impressions")) is not None:
        if not re.fullmatch("[0-9]{1,5}", count) or int(count) > MOST_IMPRESSIONS:
            raise wrong("max_impressions", count, f"a whole number from 0 (without limit) to {MOST_IMPRESSIONS}")
        given["max_impressions"] = int(count)
    if (age := params.text("max_age")) is not None:
        given["max_age"] = seconds_of(age)
    if (republish := params.text("republish")) is not None:
        if republish not in get_args(Republish):
            raise wrong("republish", republish, "'never' or 'edits'")
        given["republish"] = republish
    if (public := params.text("public")) is not None:
        if public.lower() not in TRUTHS:
            raise wrong("public", public, "'true' or 'false'")
        given["public"] = TRUTHS[public.lower()]
    return replace(before, **given)


def _offset(params: Params) -> int:
    text = params.text("after") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise wrong("after", text, "a value taken from 'paging'")
    return int(text)


class OutputActions:
    """The action `outputs`. `picked` stores picked posts of previews; `public_url` is the server's address."""

    def __init__(
        self,
        outputs: OutputFeeds,
        contents: OutputContents,
        channels: Channels,
        picked: Picked,
        most: Most,
        public_url: str,
    ) -> None:
        self._outputs = outputs
        self._contents = contents
        self._channels = channels
        self._picked = picked
        self._most = most
        self._public_url = public_url

    def table(self) -> Table:
        """The actions by what selects them."""
        return {
            ("GET", "outputs", ""): Action(SCOPE, self.listed),
            ("POST", "outputs", "create"): Action(SCOPE, self.create),
            ("POST", "outputs", "change"): Action(SCOPE, self.change, changes_topics=True),
            ("POST", "outputs", "delete"): Action(SCOPE, self.delete, changes_topics=True),
            ("POST", "outputs", "renew"): Action(SCOPE, self.renew, changes_topics=True),
            ("POST", "outputs", "revoke"): Action(SCOPE, self.revoke, changes_topics=True),
            ("POST", "outputs", "add"): Action(SCOPE, self.add, changes_topics=True),
            ("POST", "outputs", "publish"): Action(SCOPE, self.publish, changes_topics=True),
            ("POST", "outputs", "remove"): Action(SCOPE, self.remove, changes_topics=True),
        }

    async def listed(self, call: Call) -> Reply:
        """All output feeds of the user, or the items of the one in `output`, most recently edited first."""
        if call.params.text("output") is None:
            feeds = await self._outputs.all_of(call.user)
            sizes = await self._outputs.sizes(feeds)
            return {"outputs": [feed.as_dict(self._public_url, size) for feed, size in zip(feeds, sizes, strict=True)]}
        feed = await self._outputs.get(call.user, _name(call.params))
        await self._contents.refresh(feed, call.now)
        limit, offset = limit_in(call.params), _offset(call.params)
        items = await self._outputs.items(feed, limit + 1, offset)
        after = {"after": str(offset + limit)} if len(items) > limit else {}
        titles = await self._contents.titles([item.id for item in items[:limit]])
        rows = [item.as_dict(titles.get(item.id, "")) for item in items[:limit]]
        return {**await self._wire(feed), "items": rows, "paging": after}

    async def create(self, call: Call) -> Reply:
        """Create an output feed named `output`."""
        most = await self._most("outputs", call.user)
        settings = output_settings(call.params, OutputConfig(), call.now)
        await self._require_channel(call, settings)
        made = await self._outputs.create(call.user, _name(call.params), settings, call.now, most=most)
        return await self._wire(made)

    async def change(self, call: Call) -> Reply:
        """Replace the settings of `output`; missing ones get defaults, except the filters, which backend.json sets."""
        feed = await self._outputs.get(call.user, _name(call.params))
        settings = output_settings(call.params, OutputConfig(filters=feed.settings.filters), call.now)
        await self._require_channel(call, settings)
        return await self._wire(await self._outputs.change(call.user, feed.name, settings, call.now))

    async def delete(self, call: Call) -> Reply:
        """Delete `output`; its address replies 410 from then on."""
        await self._outputs.delete(call.user, _name(call.params), call.now)
        return {"result": "ok"}

    async def renew(self, call: Call) -> Reply:
        """Give `output` a new address; the old one replies 410 from then on."""
        return await self._wire(await self._outputs.renew(call.user, _name(call.params), call.now))

    async def revoke(self, call: Call) -> Reply:
        """Revoke the address of `output`; it has none until it is renewed."""
        return await self._wire(await self._outputs.revoke(call.user, _name(call.params), call.now))

    async def add(self, call: Call) -> Reply:
        """Publish the items in `entry` that aren't in `output`; posts of previews are stored for it."""
        picked, unknown = await self._picked(call.user, call.params.many("entry"), call.now)
        entries, contents = entries_in(call.params), self._contents
        return _edited(await contents.add(call.user, _name(call.params), entries, call.now, picked), unknown)

    async def publish(self, call: Call) -> Reply:
        """Publish the items in `entry`, again if they were published before."""
        return await self._edit(call, self._contents.publish)

    async def remove(self, call: Call) -> Reply:
        """Remove the items in `entry` from `output`."""
        return await self._edit(call, self._contents.remove)

    async def _edit(self, call: Call, run: Callable[[str, str, Sequence[str], float], Awaitable[Edited]]) -> Reply:
        return _edited(await run(call.user, _name(call.params), entries_in(call.params), call.now))

    async def _require_channel(self, call: Call, settings: OutputConfig) -> None:
        if settings.channel is not None:
            await self._channels.get(call.user, settings.channel)

    async def _wire(self, feed: OutputFeed) -> Mapping[str, object]:
        size = await self._outputs.size(feed)
        return feed.as_dict(self._public_url, size)
