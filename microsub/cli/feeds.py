"""`microsub fetch`, `parse`, `poll` and `cleanup`: feeds and posts by hand."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import click
import orjson

from microsub import wiring
from microsub.cli.options import FAILED, FETCH_FLAGS, STORE_FLAGS, WORK_FLAGS, fail, print_json, run, settings_flags
from microsub.config.settings import Settings
from microsub.errors import MicrosubError, ParseError
from microsub.fetch import Fetched, Fetcher, FetchFailed, FetchRequest
from microsub.formats.parse import parse as parse_feed
from microsub.formats.wire import feed_to_wire
from microsub.model.jf2 import Feed
from microsub.pipeline.on_demand import PollReport
from microsub.services.retention import RetentionReport


@click.command()
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option("--titles", default=5, show_default=True, help="How many titles to print per feed; 0 prints all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per feed and line.")
@settings_flags(*FETCH_FLAGS)
@click.pass_context
def fetch(context: click.Context, settings: Settings, urls: tuple[str, ...], titles: int, as_json: bool) -> None:
    """Fetch feeds in parallel and print their titles as they come. Nothing is stored.

    Exit code 1 when any feed failed.

    Example: microsub fetch https://alice.example/feed https://bob.example/
    """

    async def work() -> int:
        failures = 0
        async with wiring.open_fetcher(settings) as fetcher:
            tasks = [asyncio.ensure_future(_fetch_one(fetcher, url)) for url in dict.fromkeys(urls)]
            arriving = asyncio.as_completed(tasks)
            with click.progressbar(arriving, length=len(tasks), label="fetching", file=sys.stderr) as bar:
                for done in bar:
                    url, outcome = await done
                    failures += isinstance(outcome, str)
                    _show_fetched(url, outcome, titles, as_json)
        return failures

    if run(work()):
        context.exit(FAILED)


async def _fetch_one(fetcher: Fetcher, url: str) -> tuple[str, Feed | str]:
    """The feed behind `url`, or a sentence that says why there is none."""
    result = await fetcher.fetch(FetchRequest(url=url))
    if isinstance(result, FetchFailed):
        return url, f"{result.reason}: {result.detail}"
    if not isinstance(result, Fetched):
        return url, "not modified, though nothing was known"
    try:
        return url, await asyncio.to_thread(parse_feed, result.body, result.final_url, result.content_type)
    except ParseError as error:
        return url, error.detail


def _show_fetched(url: str, outcome: Feed | str, titles: int, as_json: bool) -> None:
    if as_json:
        found = {"error": outcome} if isinstance(outcome, str) else feed_to_wire(outcome)
        click.echo(orjson.dumps({"url": url, **found}).decode())
        return
    if isinstance(outcome, str):
        click.echo(f"\n{url}\n  failed: {outcome}", err=True)
        return
    click.echo(f"\n{outcome.name or url}  ({outcome.format}, {len(outcome.entries)} entries)")
    for entry in outcome.entries[: titles or None]:
        text = entry.name or entry.summary or (entry.content.text if entry.content else None) or entry.url or ""
        day = entry.published.date().isoformat() if entry.published else "-" * 10
        click.echo(f"  {day}  {' '.join(text.split())[:90]}")


@click.command()
@click.argument("source", metavar="URL|FILE")
@click.option("--url", help="The URL that a FILE came from; relative links are resolved against it.")
@click.option("--content-type", help="The Content-Type that a FILE was served with.")
@settings_flags(*FETCH_FLAGS)
def parse(settings: Settings, source: str, url: str | None, content_type: str | None) -> None:
    """Print what the server understands of a feed or page, as jf2 JSON.

    Examples: microsub parse https://alice.example/feed.xml

              microsub parse saved.html --url https://alice.example/ --content-type text/html
    """
    if source.startswith(("http://", "https://")):
        found = run(_download(settings, source))
        body, where, kind = found.body, found.final_url, content_type or found.content_type
    else:
        try:
            body = Path(source).read_bytes()
        except OSError as error:
            fail(f"{source}: {error.strerror}; expected a URL (http, https) or a readable file")
        where, kind = url or Path(source).resolve().as_uri(), content_type
    try:
        feed = parse_feed(body, url or where, kind)
    except ParseError as error:
        fail(str(error))
    print_json(feed_to_wire(feed))


async def _download(settings: Settings, url: str) -> Fetched:
    async with wiring.open_fetcher(settings) as fetcher:
        result = await fetcher.fetch(FetchRequest(url=url))
    if isinstance(result, Fetched):
        return result
    raise MicrosubError(f"{url}: {result.detail}" if isinstance(result, FetchFailed) else f"{url}: not modified")


@click.command()
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WORK_FLAGS)
@click.pass_context
def poll(context: click.Context, settings: Settings, urls: tuple[str, ...], as_json: bool) -> None:
    """Poll the given followed feeds now, or all of them, and return when that is done.

    Requests are conditional, one at a time per host, and a feed that is gone for good (410) is left alone.
    Exit code 1 when any feed failed.
    """

    async def work() -> list[PollReport]:
        async with wiring.open_stores(settings) as stores:
            return await wiring.poll_now(settings, stores, urls)

    reports = run(work())
    if as_json:
        print_json([{"url": each.url, "outcome": each.outcome, "detail": each.detail} for each in reports])
    for each in [] if as_json else reports:
        click.echo(f"{each.outcome:<10}  {each.url}  {each.detail}".rstrip())
    if any(each.outcome not in {"polled", "gone"} for each in reports):
        context.exit(FAILED)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*STORE_FLAGS)
def cleanup(settings: Settings, dry_run: bool, as_json: bool) -> None:
    """Remove read items, old unread ones and what is over the limit of each timeline, as the settings say.

    The server does this by itself all the time; the command does it now and says what it did.
    """

    async def work() -> RetentionReport:
        async with wiring.open_stores(settings) as stores:
            return await wiring.retention(stores).run(time.time(), dry_run=dry_run)

    report = run(work())
    if as_json:
        print_json(report.as_dict())
        return
    click.echo(report.as_text())
