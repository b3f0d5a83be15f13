"""Checks requirements one after the other, with a verdict on each. No server behaviour stops a run."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from microsub_conformance.bench import Bench, Run
from microsub_conformance.client import Client, Trail
from microsub_conformance.native.world import NativeClient, NativeWorld
from microsub_conformance.requirement import Need, Requirement
from microsub_conformance.site.library import publish
from microsub_conformance.site.publisher import FeedServer
from microsub_conformance.verdict import Result, Skip, Unready, Violation, shorten
from microsub_conformance.world import World

LEFT = re.compile(r"Conformance run[0-9a-f]{8} [0-9]+\b")
"""The beginning of the names of a run's channels (`World.name`)."""


class CouldNotRun(Exception):
    """The suite can't run: the server can't be reached, or refuses the token."""


@dataclass(frozen=True, slots=True)
class Target:
    """The server under test, and how to reach it.

    `token` belongs to the first user and has all scopes; `second_token` to another user, at `second_endpoint` or the
    same endpoint; `read_token` to the first user with only the scope `read`. The suite publishes its feeds at `listen`;
    the server fetches them from `feed_host` and `feed_port`, if different. `poll_command`, with `{url}` replaced, makes
    the server fetch a feed now. `patience` is in seconds. With `user`, the target is a Google Reader API: `endpoint` is
    its address and `token` the password of that user.
    """

    endpoint: str
    token: str
    second_endpoint: str | None = None
    second_token: str | None = None
    read_token: str | None = None
    user_endpoint: str | None = None
    listen: tuple[str, int] = ("127.0.0.1", 0)
    feed_host: str | None = None
    feed_port: int | None = None
    poll_command: tuple[str, ...] = ()
    patience: float = 60
    user: str = ""


def run(
    target: Target, requirements: Sequence[Requirement], tell: Callable[[Result], None] | None = None
) -> list[Result]:
    """Check `requirements` against `target`, in order; `tell` is called with each result at once.

    Raises CouldNotRun before the first check, if the server can't be reached or refuses the token.
    """
    trail = Trail()
    name = f"run{secrets.token_hex(4)}"
    with ExitStack() as stack:
        world = (_native_world if target.user else _world)(target, name, trail, stack)
        trail.take()
        results = []
        try:
            for requirement in requirements:
                result = judge(requirement, world, trail, _given(target))
                results.append(result)
                if tell:
                    tell(result)
        finally:
            world.tidy(everything=True)
        return results


def judge(requirement: Requirement, world: Bench, trail: Trail, given: frozenset[Need]) -> Result:
    """Check one requirement, clean up after it, and return the verdict."""
    missing = requirement.needs - given
    if missing:
        return Result(requirement, "skipped", 0, reason=f"needs {' and '.join(sorted(missing))}")
    started = time.monotonic()

    def seconds() -> float:
        return time.monotonic() - started

    try:
        requirement.check(world)
        return Result(requirement, "pass", seconds(), trail.take())
    except Violation as failure:
        reason = f"expected {failure.expected}"
        return Result(requirement, "fail", seconds(), trail.take(), reason, failure.expected, failure.found)
    except Skip as skip:
        return Result(requirement, "skipped", seconds(), trail.take(), str(skip))
    except Unready as unready:
        return Result(requirement, "error", seconds(), trail.take(), str(unready))
    except httpx.HTTPError as problem:
        return Result(requirement, "error", seconds(), trail.take(), f"no reply: {problem!r}")
    except Exception as problem:  # a reply of an unforeseen form must not end the run
        return Result(
            requirement, "error", seconds(), trail.take(), f"the check failed unexpectedly: {shorten(repr(problem))}"
        )
    finally:
        world.tidy()
        trail.take()


def _world(target: Target, name: str, trail: Trail, stack: ExitStack) -> World:
    def client(token: str | None, endpoint: str | None = None) -> Client | None:
        if token is None:
            return None
        made = Client(endpoint or target.endpoint, token, trail)
        stack.callback(made.close)
        return made

    user = Client(target.endpoint, target.token, trail)
    stack.callback(user.close)
    second = client(target.second_token, target.second_endpoint)
    reader = client(target.read_token)
    for who in (user, second, reader):
        if who is not None:
            _preflight(who)
    run = _run(target, name, stack)
    blogs = publish(run.publisher, name, datetime.now(UTC).replace(microsecond=0))
    for who in (user, second):
        if who is not None:
            _remove_earlier(who)
    return World(run, user, blogs, second=second, reader=reader, user_endpoint=target.user_endpoint)


def _native_world(target: Target, name: str, trail: Trail, stack: ExitStack) -> NativeWorld:
    client = NativeClient(target.endpoint, target.user, target.token, trail)
    stack.callback(client.close)
    try:
        client.sign_in()
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        raise CouldNotRun(f"{target.endpoint} can't be reached: {problem}") from None
    except Violation as problem:
        raise CouldNotRun(
            f"{target.endpoint} doesn't let '{target.user}' in by the Google Reader API: {problem}"
        ) from None
    client.remove_earlier(LEFT)
    return NativeWorld(_run(target, name, stack), client)


def _run(target: Target, name: str, stack: ExitStack) -> Run:
    try:
        publisher = stack.enter_context(FeedServer(target.listen, target.feed_host, target.feed_port))
    except OSError as problem:
        raise CouldNotRun(f"can't publish the feeds at {target.listen[0]}:{target.listen[1]}: {problem}") from None
    return Run(name, publisher, target.patience, target.poll_command)


def _remove_earlier(client: Client) -> None:
    """Delete channels of an earlier run that was killed."""
    with suppress(Violation, httpx.HTTPError):  # the checks report what is wrong with the server
        for channel in client.get("channels").listed("channels"):
            if isinstance(uid := channel.get("uid"), str) and LEFT.match(str(channel.get("name"))):
                client.post("channels", method="delete", channel=uid)


def _given(target: Target) -> frozenset[Need]:
    given: set[Need] = set()
    if target.second_token:
        given.add("second user")
    if target.read_token:
        given.add("read token")
    if target.user_endpoint:
        given.add("user endpoint")
    return frozenset(given)


def _preflight(client: Client) -> None:
    try:
        reply = client.get("channels")
    except httpx.HTTPError as problem:
        raise CouldNotRun(f"{client.endpoint} can't be reached: {problem}") from None
    except httpx.InvalidURL as problem:
        raise CouldNotRun(f"{client.endpoint} isn't a URL: {problem}") from None
    if reply.status in {401, 403}:
        raise CouldNotRun(f"{client.endpoint} refuses the token: {reply.text}")
    kind = reply.headers.get("content-type", "").partition(";")[0].strip()
    if kind == "text/html" or 300 <= reply.status < 400 or reply.status in {404, 405, 410}:
        raise CouldNotRun(
            f"{client.endpoint} isn't a Microsub endpoint: it answers GET ?action=channels with {reply.status} "
            f'{kind or "without a type"}. The endpoint is what <link rel="microsub"> of a home page names, such as '
            "https://reader.example/microsub"
        )
