"""`microsub output`: output feeds of users."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from microsub import server
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.plaintext import counted, on_one_line
from microsub.base.settings import Settings
from microsub.cli.groups import Group
from microsub.cli.options import as_instant, fail, json_flag, on_stores, print_json, say, server_address

if TYPE_CHECKING:
    from microsub.feeds import OutputFeed, OutputItem
    from microsub.outputs import Edited, OutputContents
    from microsub.server.stores import Stores

_STEP = 1000


def _age(text: str) -> int:
    """An argument that is a duration."""
    from microsub.feeds import seconds_of

    try:
        return seconds_of(text)
    except InvalidRequest as error:
        raise click.UsageError(f"--max-age: {error}") from None


@click.group(cls=Group)
def output() -> None:
    """Publish feeds of picked items, of a channel or of a search.

    An output feed is published as RSS, Atom, JSON Feed and a page, at an address that can't be guessed. With
    --max-impressions, an item leaves the feed after that many replies and counts as imported.
    """


@output.command("create")
@click.argument("user")
@click.argument("name")
@click.option("--title", default=None, help="The title that readers show.  [default: NAME]")
@click.option("--description", default=None, help="What the feed is about.")
@click.option("--image", default=None, metavar="URL", help="Its picture, such as a podcast's cover.")
@click.option("--author", default=None, metavar="NAME", help="Who publishes it.")
@click.option("--language", default=None, metavar="TAG", help="The language of its posts, such as en.")
@click.option("--channel", default=None, metavar="UID", help="Publish all posts of this channel.")
@click.option("--search", "query", default=None, metavar="QUERY", help="Publish the posts that this search finds.")
@click.option(
    "--max-impressions",
    type=click.IntRange(0, 10_000),
    default=0,
    help="In how many replies an item is shown.  [default: no limit]",
)
@click.option(
    "--max-age",
    type=_age,
    default="0",
    metavar="AGE",
    help="How long an item is shown, such as 24h or 7d.  [default: no limit]",
)
@click.option(
    "--republish",
    type=click.Choice(["never", "edits"]),
    help="Whether edited posts are published again.  [default: never with --max-impressions, else edits]",
)
@click.option("--public", is_flag=True, help="Publish at the readable address /feeds/USER/NAME.")
@json_flag
@on_stores("base_url", "host", "port")
async def output_create(
    settings: Settings, stores: Stores, user: str, name: str, as_json: bool, query: str | None, **given: Any
) -> None:
    """Create the output feed NAME for USER, and print its addresses.

    Example: microsub output create alice picks --max-impressions 4 --max-age 24h
    """
    from microsub.configuration.model import OutputConfig

    await server.backend.require_user(settings, stores, user, enabled=True)
    if given["channel"] is not None:
        await server.backend.require_channel(stores, user, given["channel"])
    if query is not None:
        from microsub.model.query import parsed

        parsed(query, time.time())
    from microsub.outputs import output_settings
    from microsub.web.params import collect

    said = {field: value for field, value in given.items() if isinstance(value, str) and field != "channel"}
    try:
        wanted = output_settings(
            collect(list(said.items())), replace(OutputConfig(), search=query, **given), time.time()
        )
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from None
    made = await stores.outputs.create(user, name, wanted, time.time())
    await server.backend.write_back(settings, stores)
    await _print_addresses(stores, made, settings, as_json)


@output.command("change")
@click.argument("user")
@click.argument("name")
@click.option("--title", default=None, help="The title that readers show.")
@click.option("--description", default=None, help="What the feed is about.")
@click.option("--image", default=None, metavar="URL", help="Its picture, such as a podcast's cover.")
@click.option("--author", default=None, metavar="NAME", help="Who publishes it.")
@click.option("--language", default=None, metavar="TAG", help="The language of its posts, such as en.")
@click.option("--channel", default=None, metavar="UID", help="Publish all posts of this channel.")
@click.option("--search", default=None, metavar="QUERY", help="Publish the posts that this search finds.")
@click.option("--max-impressions", default=None, metavar="N", help="In how many replies an item is shown; 0: no limit.")
@click.option("--max-age", default=None, metavar="AGE", help="How long an item is shown, such as 24h; 0: no limit.")
@click.option("--republish", default=None, metavar="never|edits", help="Whether edited posts are published again.")
@click.option("--public", default=None, metavar="true|false", help="Whether it is at /feeds/USER/NAME.")
@on_stores()
async def output_change(settings: Settings, stores: Stores, user: str, name: str, **given: str | None) -> None:
    """Change settings of the output feed NAME; the others stay.

    An empty value removes a setting. Example: microsub output change alice picks --author Alice --channel ""
    """
    from microsub.configuration.model import OutputConfig
    from microsub.outputs import output_settings
    from microsub.web.params import collect

    before = (await _feed(settings, stores, user, name, enabled=True)).settings
    usual = OutputConfig()
    bare = replace(before, **{field: getattr(usual, field) for field, value in given.items() if value == ""})
    try:
        wanted = output_settings(
            collect([(field, value) for field, value in given.items() if value]), bare, time.time()
        )
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from None
    if wanted.channel is not None:
        await server.backend.require_channel(stores, user, wanted.channel)
    await stores.outputs.change(user, name, wanted, time.time())
    await server.backend.write_back(settings, stores)
    say(f"settings of '{name}' changed")


@output.command("list")
@click.argument("user")
@click.argument("name", required=False)
@json_flag
@on_stores("base_url", "host", "port")
async def output_list(settings: Settings, stores: Stores, user: str, name: str | None, as_json: bool) -> None:
    """List the output feeds of USER, or the items of the feed NAME.

    Each item is listed with its state (published, imported or removed), how often it was shown, and when it was last
    edited; the latest edit comes first.
    """
    if name is None:
        await server.backend.require_user(settings, stores, user)
        feeds = await stores.outputs.all_of(user)
        sizes = await stores.outputs.sizes(feeds)
        if as_json:
            base = await server_address(stores, settings) or settings.public_url
            print_json([feed.as_dict(base, size) for feed, size in zip(feeds, sizes, strict=True)])
        else:
            await _print_feeds(stores, feeds, sizes, settings)
        return
    feed = await _feed(settings, stores, user, name)
    contents = server.stores.output_contents(stores)
    await contents.refresh(feed, time.time())
    items = await _items(stores, feed)
    titles: dict[str, str] = {}
    for start in range(0, len(items), _STEP):
        titles |= await contents.titles([item.id for item in items[start : start + _STEP]])
    if as_json:
        base = await server_address(stores, settings) or settings.public_url
        about = feed.as_dict(base, await stores.outputs.size(feed))
        print_json({**about, "items": [item.as_dict(titles.get(item.id, "")) for item in items]})
        return
    for item in items:
        shown, title = counted(item.impressions, "impression"), on_one_line(titles.get(item.id, ""))
        say(f"{item.id}  {item.state}  {shown}  {as_instant(item.edited)}  {title}".rstrip())
    if not items:
        say(_why_empty(feed))


def _takes_items(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A command that takes USER NAME ITEM... and receives the stores."""
    wrapped = on_stores()(command)
    wrapped = click.argument("items", metavar="ITEM...", nargs=-1, required=True, callback=_item_ids)(wrapped)
    return click.argument("user")(click.argument("name")(wrapped))


def _item_ids(context: click.Context, parameter: click.Parameter, items: tuple[str, ...]) -> tuple[str, ...]:
    """The ids, each once, in their order."""
    for item in items:
        if not (item.isascii() and item.isdecimal() and len(item) < 20):
            raise click.BadParameter(f"'{item[:80]}' is not an item id: expected a number, the '_id' that apps get")
    return tuple(dict.fromkeys(items))


@output.command("add")
@_takes_items
async def output_add(settings: Settings, stores: Stores, user: str, name: str, items: tuple[str, ...]) -> None:
    """Publish items of USER's channels in the output feed NAME.

    ITEM is an id, the `_id` that apps get. Items that are already in the feed stay unchanged.
    """
    contents = await _contents(settings, stores, user, name)
    _say_edited(await contents.add(user, name, items, time.time()), items, "published", f"the channels of {user}")


@output.command("publish")
@_takes_items
async def output_publish(settings: Settings, stores: Stores, user: str, name: str, items: tuple[str, ...]) -> None:
    """Publish items again, including imported ones.

    Their impressions start again from zero.
    """
    contents = await _contents(settings, stores, user, name)
    _say_edited(await contents.publish(user, name, items, time.time()), items, "published", f"the channels of {user}")


@output.command("remove")
@_takes_items
async def output_remove(settings: Settings, stores: Stores, user: str, name: str, items: tuple[str, ...]) -> None:
    """Remove items from the output feed NAME."""
    contents = await _contents(settings, stores, user, name)
    _say_edited(await contents.remove(user, name, items, time.time()), items, "removed", f"'{name}'")


@output.command("renew")
@click.argument("user")
@click.argument("name")
@json_flag
@on_stores("base_url", "host", "port")
async def output_renew(settings: Settings, stores: Stores, user: str, name: str, as_json: bool) -> None:
    """Give an output feed a new secret address.

    The old one answers 410 Gone.
    """
    await _feed(settings, stores, user, name, enabled=True)
    await _print_addresses(stores, await stores.outputs.renew(user, name, time.time()), settings, as_json)


@output.command("revoke")
@click.argument("user")
@click.argument("name")
@on_stores()
async def output_revoke(settings: Settings, stores: Stores, user: str, name: str) -> None:
    """Revoke the secret address of an output feed.

    The feed has no secret address until `microsub output renew`. The readable address of a public feed stays.
    """
    await _feed(settings, stores, user, name)
    revoked = await stores.outputs.revoke(user, name, time.time())
    if revoked.settings.public:
        say(f"the secret address of '{name}', if it had one, is revoked; its readable address stays")
    else:
        say(f"the address of '{name}' is revoked; for a new one: microsub output renew {user} {name}")


@output.command("delete")
@click.argument("user")
@click.argument("name")
@on_stores()
async def output_delete(settings: Settings, stores: Stores, user: str, name: str) -> None:
    """Delete an output feed permanently; its address answers 410."""
    await _feed(settings, stores, user, name)
    await stores.outputs.delete(user, name, time.time())
    await server.backend.write_back(settings, stores)
    say(f"output feed '{name}' deleted")


async def _feed(settings: Settings, stores: Stores, user: str, name: str, *, enabled: bool = False) -> OutputFeed:
    """The output feed. Raises as `require_user` does, and NotFound, which says where names are listed."""
    await server.backend.require_user(settings, stores, user, enabled=enabled)
    try:
        return await stores.outputs.get(user, name)
    except NotFound as error:
        raise NotFound(f"{error}; see: microsub output list {user}") from None


async def _contents(settings: Settings, stores: Stores, user: str, name: str) -> OutputContents:
    """The use cases on items of that output feed. Raises as `_feed` does."""
    await _feed(settings, stores, user, name, enabled=True)
    return server.stores.output_contents(stores)


def _say_edited(edited: Edited, items: Sequence[str], done: str, place: str) -> None:
    """Print the result; exit with code 1 if `place` had none of the items."""
    changed, unknown = edited
    if unknown:
        say(f"not found in {place}: {', '.join(unknown)}", err=True)
    say(f"{counted(changed, 'item')} {done}")
    if len(unknown) == len(items):
        fail("nothing was changed")


def _why_empty(feed: OutputFeed) -> str:
    name, channel = feed.name, feed.settings.channel
    if feed.settings.search:
        return f"the search of '{name}' has found nothing yet; it runs when the feed is requested"
    if channel:
        return f"no posts of the channel '{channel}' yet; new posts that pass the filters are added"
    return f"'{name}' has no items yet; to add some: microsub output add {feed.user} {name} ITEM"


async def _items(stores: Stores, feed: OutputFeed) -> list[OutputItem]:
    found: list[OutputItem] = []
    while batch := await stores.outputs.items(feed, _STEP, len(found)):
        found += batch
    return found


async def _print_addresses(stores: Stores, feed: OutputFeed, settings: Settings, as_json: bool) -> None:
    base = await server_address(stores, settings)
    if as_json:
        print_json(feed.as_dict(base or settings.public_url, await stores.outputs.size(feed)))
        return
    say(feed.name)
    for form, address in feed.addresses(base or settings.public_url).items():
        say(f"{form:5} {address}")
    if base is None:
        _say_assumed(settings)


def _say_assumed(settings: Settings) -> None:
    """Warn that printed addresses are a guess."""
    say(
        f"No server has been started on this data yet, so these addresses assume one at {settings.public_url}", err=True
    )


async def _print_feeds(
    stores: Stores, feeds: Sequence[OutputFeed], sizes: Sequence[tuple[int, int]], settings: Settings
) -> None:
    base = await server_address(stores, settings)
    for feed, (published, imported) in zip(feeds, sizes, strict=True):
        say(f"{feed.name}  {on_one_line(feed.title)}  {published} published, {imported} imported")
        for form, address in feed.addresses(base or settings.public_url).items():
            say(f"  {form:5} {address}")
    if not feeds:
        say("no output feeds")
    elif base is None:
        _say_assumed(settings)
