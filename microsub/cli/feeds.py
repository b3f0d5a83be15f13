"""`microsub fetch`, `parse`, `feed`, `poll`, `post` and `cleanup`: commands on feeds and posts."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from microsub import server
from microsub.base.errors import FetchError, MicrosubError, ParseError, private_hint
from microsub.base.plaintext import counted, escaped, on_one_line
from microsub.base.settings import Settings
from microsub.base.urls import mask_credentials
from microsub.cli.groups import Command, Group
from microsub.cli.options import (
    FAILED,
    FETCH_FLAGS,
    WORK_FLAGS,
    FiniteRange,
    as_instant,
    as_push,
    clear_line,
    fail,
    json_flag,
    on_stores,
    print_json,
    run,
    say,
    say_json,
    settings_flags,
)

if TYPE_CHECKING:
    from microsub.cache import CachedFeed
    from microsub.feeds import FeedRecord, PushHealth
    from microsub.fetch import Fetched
    from microsub.model.jf2 import Feed
    from microsub.parsing.pool import ParsePool
    from microsub.polling import PollReport
    from microsub.server.stores import Stores

_TITLE = 90
_COMPLETED = 20
_TRIED = 3


@click.command(cls=Command)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Send requests even if the copies are fresh.")
@click.option("--offline", is_flag=True, help="Send no requests; show the copies.")
@click.option(
    "--ttl", type=FiniteRange(0), default=300, show_default=True, help="Seconds for which a copy is used as is."
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder for the copies.  [default: microsub/feeds in $XDG_DATA_HOME or ~/.local/share]",
)
@click.option(
    "--titles",
    default=5,
    show_default=True,
    help="How many titles to print per feed; 0 prints all. JSON has all entries.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per feed and line.")
@settings_flags(*FETCH_FLAGS)
@click.pass_context
def fetch(
    context: click.Context,
    settings: Settings,
    urls: tuple[str, ...],
    force: bool,
    offline: bool,
    ttl: float,
    cache: Path | None,
    titles: int,
    as_json: bool,
) -> None:
    """Print the titles of feeds, fetched in parallel.

    A URL can also be a page that names a feed, as when following. Copies are kept in a folder. A copy younger than
    --ttl is used as is; after that, requests are conditional (If-None-Match). The server and its Redis aren't used.

    Exit code 1 if any feed failed, even if an older copy could be shown.

    Example: microsub fetch https://alice.example/feed https://bob.example/
    """
    from microsub.cache import CachedFeed

    distinct = list(dict.fromkeys(urls))

    async def work() -> int:
        failures = 0
        async with server.fetching.open_feed_cache(settings, cache or _copies_folder()) as feeds:
            with click.progressbar(length=len(distinct), label="fetching", file=sys.stderr) as bar:
                async for url, outcome in feeds.fetch_many(distinct, force, offline, ttl):
                    failures += not isinstance(outcome, CachedFeed) or outcome.error is not None
                    if sys.stderr.isatty():
                        clear_line()
                    _show_fetched(url, outcome, titles, as_json)
                    bar.update(1)
        return failures

    if run(work()):
        context.exit(FAILED)


def _copies_folder() -> Path:
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "microsub" / "feeds"


def _show_fetched(url: str, outcome: CachedFeed | FetchError | ParseError, titles: int, as_json: bool) -> None:
    from microsub.cache import CachedFeed
    from microsub.formats.wire import feed_to_wire

    error = outcome.error if isinstance(outcome, CachedFeed) else outcome
    problem = None if error is None else error.detail
    if isinstance(error, FetchError):
        problem = _for_admins(error.reason, f"{error.reason}: {error.detail}")
    if as_json:
        found: dict[str, object] = {"url": url}
        if problem is not None:
            found["error"] = problem
        if isinstance(outcome, CachedFeed):
            found |= {"final_url": outcome.final_url, "page": outcome.page}
            found |= {"source": outcome.source, "age": round(outcome.age, 3), "feed": feed_to_wire(outcome.feed)}
        say_json(found)
        return
    if isinstance(outcome, CachedFeed):
        _show_titles(outcome, titles)
    if problem is not None:
        say(f"\n{escaped(mask_credentials(url))}\n  failed: {escaped(problem)}", err=True)


def _show_titles(found: CachedFeed, titles: int) -> None:
    feed = found.feed
    origin = {"network": "new", "not_modified": "not modified", "cache": f"copy, {_duration(found.age)} old"}
    name = on_one_line(feed.name or mask_credentials(found.url))
    say(f"\n{name}  ({feed.format}, {len(feed.entries)} entries, {origin[found.source]})")
    if found.page is not None:
        say(f"  {escaped(mask_credentials(found.final_url))}, the feed that the page names")
    for entry in feed.entries[: titles or None]:
        text = entry.name or entry.summary or (entry.content.text if entry.content else None) or entry.url or ""
        day = entry.published.date().isoformat() if entry.published else "-" * 10
        say(f"  {day}  {_shortened(on_one_line(text))}")


def _shortened(text: str) -> str:
    """At most `_TITLE` characters, cut between words if possible."""
    if len(text) <= _TITLE:
        return text
    cut = text[:_TITLE]
    return (cut.rpartition(" ")[0] or cut[:-1]) + "…"


def _for_admins(reason: str, text: str) -> str:
    """A failed fetch, with what the admin can do about it."""
    return f"{text}; MICROSUB_ALLOW_PRIVATE_NETWORKS can allow it" if private_hint(reason, text) else text


def _duration(seconds: float) -> str:
    for length, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"


@click.command(cls=Command)
@click.argument("source", metavar="URL|FILE")
@click.option("--url", help="The URL that a FILE came from; relative links are resolved against it.")
@click.option("--content-type", help="The Content-Type that a FILE was served with.")
@click.option(
    "--complete",
    is_flag=True,
    help=f"For the first {_COMPLETED} entries, look up authors and the targets of replies, likes, reposts and "
    "bookmarks.",
)
@click.option("--as-is", is_flag=True, help="Read the page itself, not the feed that it names.")
@settings_flags(*FETCH_FLAGS)
def parse(
    settings: Settings, source: str, url: str | None, content_type: str | None, complete: bool, as_is: bool
) -> None:
    """Print what the server reads from a feed or page, as JSON.

    The format is jf2 (https://jf2.spec.indieweb.org/). If a page names a feed, that feed is printed, as when following
    the page; --as-is reads the page itself.

    Examples: microsub parse https://alice.example/feed.xml

              microsub parse --complete https://alice.example/likes/

              microsub parse saved.html --url https://alice.example/ --content-type text/html
    """
    from microsub.formats.wire import feed_to_wire
    from microsub.parsing.pool import ParsePool
    from microsub.server.parsers import TASKS

    is_remote = source.startswith(("http://", "https://"))
    if is_remote:
        document = run(_download(settings, source))
        if content_type:
            document = replace(document, content_type=content_type)
    else:
        document = _saved(source, url, content_type)
    feed: Feed | ParseError
    with closing(ParsePool(TASKS)) as parser:
        try:
            feed = _parsed(parser, document)
        except ParseError as error:
            feed = error
        is_feed = not isinstance(feed, ParseError) and feed.format != "h-feed"
        named = [] if as_is or is_feed else _named(parser, document)
        if named and is_remote:
            feed = run(_first_of(settings, parser, named)) or feed
        elif named:
            say(f"this page names a feed, which a follow would use: {escaped(named[0])}", err=True)
        if isinstance(feed, ParseError):
            fail(str(feed))
        if complete:
            feed = run(_completed(settings, parser, feed))
    print_json(feed_to_wire(feed))


def _saved(file: str, url: str | None, content_type: str | None) -> Fetched:
    """A document on this machine, as if it came from `url`."""
    from microsub.fetch import Fetched

    try:
        body = Path(file).read_bytes()
    except OSError as error:
        fail(f"{file}: {error.strerror}; expected an http or https URL, or a readable file")
    where = url or Path(file).resolve().as_uri()
    return Fetched(where, where, 200, {}, body, content_type, None, None, None)


def _parsed(parser: ParsePool, document: Fetched) -> Feed:
    from microsub.formats.parse import PARSE

    where = document.final_url
    return parser.run_blocking(PARSE, where, document.body, where, document.content_type)


def _named(parser: ParsePool, document: Fetched) -> list[str]:
    """The URLs of the feeds to follow instead of a page, best first."""
    from microsub.formats.feed_links import BETTER_FEEDS

    where, link = document.final_url, document.headers.get("link")
    with suppress(ParseError):
        links = parser.run_blocking(BETTER_FEEDS, where, document.body, where, document.content_type, link)
        return [link.url for link in links]
    return []


async def _first_of(settings: Settings, parser: ParsePool, named: list[str]) -> Feed | None:
    """The first usable feed that a page names. Prints its URL, and why earlier ones failed."""
    for url in named[:_TRIED]:
        try:
            feed = _parsed(parser, await _download(settings, url))
        except MicrosubError as error:
            say(f"the page names a feed that can't be used: {escaped(str(error))}", err=True)
        else:
            say(f"reading the feed that the page names: {escaped(url)}", err=True)
            return feed
    return None


async def _completed(settings: Settings, parser: ParsePool, feed: Feed) -> Feed:
    async with server.fetching.open_completing(settings, parser) as completing:
        entries = await completing.complete_all(feed.entries[:_COMPLETED], feed.url)
    return replace(feed, entries=(*entries, *feed.entries[_COMPLETED:]))


async def _download(settings: Settings, url: str) -> Fetched:
    from microsub.fetch import Fetched, FetchFailed, FetchRequest

    async with server.fetching.open_fetcher(settings) as fetcher:
        result = await fetcher.fetch(FetchRequest(url=url))
    if isinstance(result, Fetched):
        return result
    what = _for_admins(result.reason, result.detail) if isinstance(result, FetchFailed) else "not modified"
    raise MicrosubError(f"{url}: {what}")


@click.group(cls=Group)
def feed() -> None:
    """List followed feeds, and change a user's settings for one."""


@feed.command("list")
@click.option("--failing", is_flag=True, help="Only feeds whose last poll failed, or that are gone.")
@json_flag
@on_stores()
async def feed_list(settings: Settings, stores: Stores, failing: bool, as_json: bool) -> None:
    """List followed feeds: state, followers, next poll, last error.

    States: ok; failing (the last poll failed); gone (the publisher answered 410, so it is no longer polled); new (not
    polled yet); written (only programs save posts into it, so it isn't polled). For a feed that names a hub, the list
    says whether it is pushed, or why not. No requests are sent: the list shows what earlier polls and deliveries found.

    Example: microsub feed list --failing
    """
    from microsub.admin import followed_feeds
    from microsub.feeds import push_health, state_of

    now = time.time()
    every = [(state_of(feed), feed, count) async for feed, count in followed_feeds(stores.feeds)]
    found = [
        (state, feed, count, push_health(feed, now))
        for state, feed, count in every
        if not failing or state in {"failing", "gone"}
    ]
    if as_json:
        print_json([_feed_as_json(*one) for one in found])
        return
    for one in found:
        say(_feed_line(*one, now))
    if not found:
        say("no failing feeds" if failing else "no followed feeds", err=True)


@feed.command("set")
@click.argument("user")
@click.argument("url")
@click.argument("changes", metavar="[SETTING=VALUE]...", nargs=-1)
@click.option("--channel", metavar="UID", help="Only in this channel.  [default: all that follow the feed]")
@on_stores()
async def feed_set(
    settings: Settings, stores: Stores, user: str, url: str, changes: tuple[str, ...], channel: str | None
) -> None:
    """Change settings of USER for the feed at URL, and print them.

    SETTING is a key of a feed in backend.json, such as view or filter; VALUE is its value there. An empty value
    restores the default. The other settings stay, and so do those of the feed's other followers.

    Examples: microsub feed set alice https://blog.example/feed name=Blog view=list hide_in_all=true

              microsub feed set alice https://blog.example/feed 'filter={"exclude_words": ["advert"]}'
    """
    from microsub.configuration.follows import feed_settings, with_settings
    from microsub.configuration.model import FeedConfig

    given = dict(change.partition("=")[::2] for change in changes)
    if odd := next((change for change in changes if "=" not in change), None):
        raise click.UsageError(f"found '{odd[:80]}', expected SETTING=VALUE")
    await server.backend.require_user(settings, stores, user, enabled=True)
    if channel is not None:
        await server.backend.require_channel(stores, user, channel)
    following = server.stores.following(stores)
    follows = [(uid, follow) for uid, follow in (await following.holders(user, url)).items() if channel in {None, uid}]
    if not follows:
        fail(f"'{user}' doesn't follow {mask_credentials(url)}" + (f" in '{channel}'" if channel else ""))
    for uid, follow in follows:
        wanted = with_settings(FeedConfig.of(follow), given)
        if given:
            name = (wanted.name or "") if "name" in given else None
            await following.change(
                user, uid, follow.feed, time.time(), name=name, settings=wanted.settings, former=follow.settings
            )
        say(escaped(f"{uid}  {orjson.dumps(feed_settings(wanted)).decode()}"))
    if given:
        await server.backend.write_back(settings, stores)


@feed.command("sign-in")
@click.argument("user")
@click.argument("url")
@click.option("--name", metavar="NAME", help="Sign in with this user name; the password is asked for.")
@click.option("--headers", is_flag=True, help="Read headers from standard input, one `Name: value` a line.")
@click.option("--remove", is_flag=True, help="Ask for the feed without credentials again.")
@on_stores()
async def feed_sign_in(
    settings: Settings, stores: Stores, user: str, url: str, name: str | None, headers: bool, remove: bool
) -> None:
    """Ask for the feed at URL with credentials of USER, who then follows it alone.

    Passwords and headers are read from the terminal or standard input, stored encrypted, and never shown.

    Examples: microsub feed sign-in alice https://members.example/feed --name alice

              microsub feed sign-in alice https://members.example/feed --headers < headers.txt
    """
    from microsub.model.sign_ins import sign_in_headers

    if bool(name) + headers + remove != 1:
        raise click.UsageError("expected one of --name, --headers and --remove")
    await server.backend.require_user(settings, stores, user, enabled=True)
    holders = await server.stores.following(stores).holders(user, url)
    if not holders:
        fail(f"'{user}' doesn't follow {mask_credentials(url)}")
    signed = server.stores.signed_feeds(stores)
    feed_id = next(iter(holders.values())).feed
    if remove:
        await signed.remove(user, feed_id, time.time())
    else:
        given = sign_in_headers(headers=sys.stdin.read()) if name is None else sign_in_headers(name, _password())
        await signed.give(user, feed_id, given, time.time())
    say("removed" if remove else f"{user} follows a feed of their own now, which is asked for with these credentials")
    await server.backend.write_back(settings, stores)


def _password() -> str:
    if sys.stdin.isatty():
        typed: str = click.prompt("Password", hide_input=True, err=True)
        return typed
    return sys.stdin.readline().rstrip("\r\n")


def _feed_as_json(state: str, record: FeedRecord, followers: int, push: PushHealth) -> dict[str, object]:
    return {
        "id": record.id,
        "url": mask_credentials(record.url),
        "title": record.title,
        "state": state,
        "followers": followers,
        "next_poll": as_instant(record.next_poll),
        "last_success": as_instant(record.last_success),
        "failures": record.failures,
        "error": record.last_error if state in {"failing", "gone"} else None,
        "error_at": as_instant(record.last_error_at) if state in {"failing", "gone"} else None,
        "push": as_push(push),
    }


def _feed_line(state: str, record: FeedRecord, followers: int, push: PushHealth, now: float) -> str:
    parts = [f"{state:<7}", f"{counted(followers, 'follower'):<12}", mask_credentials(record.url)]
    if state == "failing":
        often = f" ({record.failures} times in a row)" if record.failures > 1 else ""
        error = record.last_error or ""
        parts.append(f"{_for_admins(error.partition(':')[0], error)}{often}")
    if record.hub:
        parts.append("pushed" if push.pushed else f"polled: {push.why}")
    if record.next_poll is not None and state not in {"gone", "written"}:
        parts.append(f"next poll {'now' if record.next_poll <= now else f'in {_duration(record.next_poll - now)}'}")
    return escaped("  ".join(parts))


@click.command(cls=Command)
@click.argument("urls", metavar="[URL]...", nargs=-1)
@json_flag
@on_stores(*FETCH_FLAGS, *WORK_FLAGS)
async def poll(settings: Settings, stores: Stores, urls: tuple[str, ...], as_json: bool) -> None:
    """Poll followed feeds now: the given ones, or all.

    Returns when all polls are done. Requests are conditional, and sent one at a time per host. Feeds that are gone
    (410) are skipped. The worker of a running server polls with its own settings; without a server, this command polls
    itself. Exit code 1 if any feed failed.
    """
    reports = await server.poller.poll_now(settings, stores, urls)
    if as_json:
        names = ("url", "outcome", "detail", "new", "updated")
        print_json([{name: getattr(each, name) for name in names} for each in reports])
    elif not reports:
        say("no followed feeds", err=True)
    for each in [] if as_json else reports:
        say(escaped(f"{each.outcome:<10}  {each.url}  {_found(each)}".rstrip()))
    if any(each.outcome not in {"polled", "gone", "written"} for each in reports):
        sys.exit(FAILED)


def _found(report: PollReport) -> str:
    if report.outcome == "refused":
        why = _for_admins("blocked", report.detail)
        return f"{why} (nothing was recorded; a server with other settings might poll it)"
    if report.outcome != "polled":
        return _for_admins(report.detail.partition(":")[0], report.detail)
    counts = {"new": report.new, "updated": report.updated}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "unchanged"


@click.command(cls=Command)
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@json_flag
@on_stores()
async def cleanup(settings: Settings, stores: Stores, dry_run: bool, as_json: bool) -> None:
    """Remove old items now, according to the settings.

    Removes read items, old unread items and items over the limit of each timeline; channels and users that were removed
    more than 30 days ago; and posts that are no longer in any timeline. Such posts are removed in two steps: one
    cleanup marks them, and another one at least an hour later deletes them. The server does all this automatically;
    this command does it now and prints the result.
    """
    timelines = await server.jobs.retention(settings, stores).run(time.time(), dry_run=dry_run)
    posts = await server.jobs.sweeping(stores).run(time.time(), dry_run=dry_run)
    if as_json:
        print_json(timelines.as_dict() | {"store": posts.as_dict()})
        return
    say(timelines.as_text())
    say(posts.as_text())


@click.command(cls=Command)
@click.argument("id")
@on_stores()
async def post(settings: Settings, stores: Stores, id: str) -> None:
    """Print the post with that ID as JSON.

    This is what reader apps receive, without the reader's own state. In Redis it is packed: the field `Data` of the
    key `item:ID`.
    """
    (data,) = await stores.items.data([id])
    if data is None:
        fail(f"there is no post {id}")
    try:
        print_json(orjson.loads(data))
    except ValueError:
        fail(f"the post {id} is corrupt")
