"""Synchronisation of backend.json with the stores: edits are applied, API changes written back.

`look` and `write_back` are single steps that can be repeated at any time; `run` calls them when needed. One process at
a time does either, under a lease. The file recorded as applied is the base of the next merge; it is recorded last.

The two don't trigger each other: `write_back` records what it writes as applied, so `look` finds nothing to do. A file
that isn't the applied one is never overwritten.

An edit is recorded before its first change and forgotten after its last. If a process dies in between, the next one
completes that edit before it reads the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import structlog

from microsub import base  # metrics take long to load, and `config check` has none
from microsub.backend_file.file import X_VERSION, BackendFile, FileState, is_version_of, pause, said, stamped, token_of
from microsub.backend_file.store import Applied, AppliedFile
from microsub.base.errors import ConfigError, InvalidRequest, RequestError, StoreError
from microsub.base.tasks import cancel_all
from microsub.base.texts import program
from microsub.configuration.document import (
    BackendDocument,
    BackendFindings,
    BackendReport,
    channelless,
    describe,
    examine,
    parse,
    unreadable,
)
from microsub.configuration.effective import Status
from microsub.configuration.facts import WRITTEN, Change, Clash, Current, Form, Merge, edited, merge
from microsub.configuration.json_text import rewrite
from microsub.configuration.model import Backend, UserConfig

log = structlog.get_logger(__name__)

_AFTER_BUG = 60.0
"""Seconds until what failed by a bug is tried again."""

Outcome = Literal["applied", "unchanged", "invalid", "missing", "outdated", "busy"]


class Timing(NamedTuple):
    """Times in seconds.

    `lease`: how long a lease lasts; `retry`: pause before asking for it again. `settle`: pause before an invalid file
    is read again, because an editor may be writing it. `quiet`, `longest_quiet`: wait for more API changes, and at
    most. `compare`: interval between checks for API changes of other processes. `after_failure`: pause after Redis
    was unavailable.
    """

    lease: float = 30.0
    retry: float = 0.2
    settle: float = 0.3
    quiet: float = 2.0
    longest_quiet: float = 10.0
    compare: float = 5.0
    after_failure: float = 1.0


class Administration(Protocol):
    """The state of all stores, and changes to them (`microsub.backend_file.apply`)."""

    async def current(self, only: Collection[str] | None = None, *, declared: Collection[str] | None = None) -> Current:
        """The state of the stores."""
        ...

    async def form(self, *users: Iterable[UserConfig]) -> Form:
        """The form in which addresses of feeds are compared in these users' channels."""
        ...

    async def with_addresses(self, backend: Backend, now: float | None) -> Backend:
        """The declarations with each sign-in of a feed as its address; kept at time `now`, if given."""
        ...

    async def clashes(self, changes: Sequence[Change]) -> Sequence[Clash]:
        """The users who would share a URL with another user after all these changes."""
        ...

    async def apply(self, change: Change, now: float, *, vetted: bool = False) -> None:
        """Apply one change."""
        ...


def _left(done: Merge, whole: Merge) -> list[str]:
    """A line for each change of `whole` that isn't `done`, because an app has changed the same later."""
    texts = set(map(str, done.changes))
    return [f"not applied, because of a later change in an app: {change}" for change in map(str, whole.changes)
            if change not in texts]  # fmt: skip


class _LeaseLostError(Exception):
    """Another process has the lease now and will do the rest."""


class Configuration:
    """Synchronises the backend file and the stores. `clock` returns Unix time in seconds.

    `creates`: whether the first users create a file that doesn't exist, if changes are written back.
    """

    def __init__(
        self,
        path: Path,
        applied: Applied,
        applier: Administration,
        *,
        write_back: bool,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        timing: Timing | None = None,
        creates: bool = True,
        on_applied: Callable[[], object] = lambda: None,
        on_lost: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._file = BackendFile(path)
        self._applied = applied
        self._applier = applier
        self._writes_back = write_back
        self._creates = creates
        self._environ = os.environ if environ is None else environ
        self._clock = clock
        self._timing = timing or Timing()
        self._on_applied = on_applied
        self._on_lost = on_lost
        self._instance: str | None = None
        self._lease = applied.lease(secrets.token_hex(8), self._timing.lease)
        self._step = asyncio.Lock()
        self._touched = asyncio.Event()
        self._waiting: set[str] = set()
        self._done: tuple[str, float] | None = None
        self._refused: str | None = None
        self._examined: tuple[str, BackendReport] | None = None
        self._written: tuple[str, Current] | None = None
        self._notices = Notices(path, applied.last)

    @property
    def path(self) -> Path:
        """The path of the file, as given."""
        return self._file.path

    @property
    def status(self) -> Status:
        """The present state of the file."""
        return self._notices.status

    def touched(self) -> None:
        """Signal an API change, which is written back soon. Never blocks."""
        self._touched.set()

    async def watch_data(self) -> None:
        """Apply the file again if Redis has lost its data.

        The first call remembers the name of the data. Raises StoreError; call it again then.
        """
        if self._instance is None:
            self._instance = await self._applied.name_instance()
        if await self._applied.instance() == self._instance:
            return
        self._notices.lost()
        if self._on_lost is not None:
            await self._on_lost()
        self._done = self._examined = None
        self._on_applied()
        if await self.look() != "busy":
            self._instance = await self._applied.name_instance()
            self._notices.found()

    # --- from the file to the stores ---------------------------------------------------------------------------------

    async def look(self) -> Outcome:
        """Read the file and apply its edits.

        Raises StoreError; then nothing is recorded as applied, and it must be called again.
        """
        async with self._step:
            if (found := await self._read()) is None:
                return "missing"
            state, report = found
            if report.document is None:
                return "invalid"
            if self._done == (state.digest, state.edited_at):
                return "unchanged"
            async with self._leased() as held:
                outcome = await self._apply(report.document, state) if held else "busy"
            if outcome in {"applied", "unchanged"}:
                self._done = (state.digest, state.edited_at)
            return outcome

    async def _read(self) -> tuple[FileState, BackendReport] | None:
        """The file and its contents; None if it can't be read.

        An invalid file is read again until it no longer changes, because an editor may be writing it in place.
        """
        before: str | None = None
        while True:
            try:
                state = await asyncio.to_thread(self._file.read)
            except OSError as error:
                self._done = None
                await self._notices.refused(unreadable(self.path, error), key=str(error))
                return None
            report = None if state is None else await self._examine(state)
            seen = state.digest if state is not None else "missing"
            if seen == before or (report is not None and report.ok):
                break
            before = seen
            await asyncio.sleep(self._timing.settle)
        if state is None or report is None:
            self._done = None
            await self._notices.missing()
            return None
        if report.problems:
            self._done = None
            await self._notices.refused(*report.problems, key=state.digest)
        elif state.digest != self._refused:  # `_apply` reports conflicts with the stores
            self._notices.accepted(report, state.digest)
        return state, report

    async def _still(self, state: FileState) -> bool:
        """Whether the file has the same contents still: another process may have written and applied a newer one."""
        try:
            now = await asyncio.to_thread(self._file.read)
        except OSError:
            return False
        return now is not None and now.digest == state.digest

    async def _examine(self, state: FileState) -> BackendReport:
        """The checked contents of the file, cached until the file changes."""
        if self._examined is None or self._examined[0] != state.digest:
            report = await asyncio.to_thread(examine, state.body, str(self.path), self._environ)
            if report.document is not None:
                try:
                    document = await self._signed(report.document, self._clock())
                except ConfigError as error:
                    return replace(report, problems=(error,), document=None)  # asked again, since no edit ends it
                report = replace(report, document=document)
            self._examined = state.digest, report
        return self._examined[1]

    async def _signed(self, document: BackendDocument, now: float | None) -> BackendDocument:
        """The document with addresses in place of sign-ins, so that no secret goes further."""
        return replace(document, backend=await self._applier.with_addresses(document.backend, now))

    async def _apply(self, document: BackendDocument, state: FileState) -> Outcome:
        try:
            finished = await self._finish()
        except _LeaseLostError:
            return "busy"
        last = await self._applied.last()
        if last is not None and last.digest == state.digest and last.backend == document.backend:
            self._notices.set_problems()
            if finished:
                await self._keep(document, state)
            return "applied" if finished else "unchanged"
        if last is not None and state.edited_at < last.edited_at:
            if await self._still(state):
                log.warning(
                    "backend.json is older than the last applied one, so it is ignored; save it again to apply it",
                    file=str(self.path),
                    applied_from=last.place,
                )
            return "outdated"
        base = last.backend if last is not None else Backend()
        headline, earlier = "", None
        if self._writes_back and last is not None:
            headline, earlier = await asyncio.to_thread(self._begun_from, document, state, last)
            earlier = earlier and await self._applier.with_addresses(earlier, None)
        merged = await self._merge(earlier or base, document.backend, state.edited_at)
        problems = await self._told(document, merged)
        if problems:
            self._refused = state.digest
            await self._notices.refused(*problems, key=f"clash in {state.digest}")
            return "invalid"
        self._refused = None
        edit = self._edit(document, state)
        said_first = [headline] if headline else []
        if earlier is not None:
            said_first += _left(merged, await self._merge(base, document.backend, state.edited_at))
        saved = datetime.fromtimestamp(state.edited_at, UTC).isoformat(timespec="milliseconds")
        for line in said_first:
            log.warning(line, file=str(self.path), saved=saved)  # the time tells the warnings of two saves apart
        if merged.changes:
            await self._applied.begin(earlier or base, edit)
        try:
            await self._carry_out(merged, said_first)
        except _LeaseLostError:
            return "busy"
        if not await self._remember(edit, last):
            return "busy"
        await self._keep(document, state)
        self._notices.set_problems()
        log.info("backend.json applied", changes=len(merged.changes), conflicts=len(merged.conflicts))
        return "applied"

    async def _finish(self) -> bool:
        """Complete an edit that a process left partly applied; whether there was one.

        A partly applied change may look complete. Raises _LeaseLostError.
        """
        begun = await self._applied.begun()
        if begun is None:
            return False
        base, edit = begun
        log.info("backend.json: completing an edit that was applied only in part", file=str(self.path))
        await self._carry_out(await self._merge(base, edit.backend, edit.edited_at, again=True))
        if not await self._remember(edit, await self._applied.last()):
            await self._applied.end()
        return True

    async def _remember(self, file: AppliedFile, last: AppliedFile | None) -> bool:
        """Record the file as applied instead of `last`; False if another process was faster."""
        instead_of = last.digest if last is not None else ""
        return await self._applied.remember(file, self._clock(), instead_of=instead_of)

    def _edit(self, document: BackendDocument, state: FileState) -> AppliedFile:
        return AppliedFile(document.backend, state.digest, state.edited_at, str(self.path.absolute()))

    async def clashes(self, document: BackendDocument) -> tuple[ConfigError, ...]:
        """Conflicts of a valid document with existing accounts: two users with the same URL.

        Changes nothing. Raises StoreError.
        """
        last = await self._applied.last()
        base = last.backend if last is not None else Backend()
        return await self._told(document, await self._merge(base, document.backend, self._clock()))

    async def _told(self, document: BackendDocument, merged: Merge) -> tuple[ConfigError, ...]:
        findings = BackendFindings(document.file, document.source)
        for clash in await self._applier.clashes(merged.changes):
            path = ("users", clash.user, "me")
            findings.wrong(
                path,
                f"{findings.written(path, clash.me)}, the same person as '{clash.other}', who is a user of this "
                f"server with {describe(clash.theirs)}",
                "a different site for each user, because a site can sign in to only one account; "
                f"see '{program()} user list', and '{program()} user remove {clash.other}'",
            )
        return (*findings.errors(), *channelless(document, merged.channelless))

    def _begun_from(self, document: BackendDocument, state: FileState, last: AppliedFile) -> tuple[str, Backend | None]:
        """The version in which the edit began, None if that is `last`; and a line about it, '' if there is none.

        An editor may have had an earlier version open while the server wrote changes made in apps. Of several versions
        with the file's `x-version`, the newest counts: the others are its states before earlier saves.
        """
        names = self._file.version_names()[::-1]
        if any(is_version_of(name, state.digest) for name in names[1:]):
            return "backend.json was reset to an older version; changes made in apps since then are undone", None
        newest = self._token_of(names[0]) if names else None
        token = document.raw.get(X_VERSION)
        if (token is None and newest is None) or (names and is_version_of(names[0], state.digest)):
            return "", None
        if names and (is_version_of(names[0], last.digest) or (newest and newest == last.writing)):
            if token == newest and is_version_of(names[0], last.digest):
                return "", None
            for name in names if isinstance(token, str) else ():
                if self._token_of(name) == token and (backend := self._version(name)) is not None:
                    return (
                        f"backend.json was edited from the older version {name}; changes made since then stay",
                        backend,
                    )
        why = "has no 'x-version'" if token is None else "has an 'x-version' of which no version is kept"
        return f"backend.json {why}, so it counts as a complete new file: what it lacks is removed", None

    def _token_of(self, name: str) -> str | None:
        with contextlib.suppress(OSError):
            return token_of(self._file.version(name))
        return None

    def _version(self, name: str) -> Backend | None:
        with contextlib.suppress(OSError):
            return said(self._file.version(name), self._environ)
        return None

    async def _keep(self, document: BackendDocument, state: FileState) -> None:
        """Save a copy of the version just applied, if apps' changes are written into the file."""
        if not self._writes_back or document.legacy:
            return
        try:
            await asyncio.to_thread(self._file.keep, state, self._clock(), by_hand=True)
        except OSError as error:
            self._notices.warn("versions", f"can't keep a version of backend.json: {error.strerror or error}")

    async def _merge(self, base: Backend, file: Backend, edited_at: float, *, again: bool = False) -> Merge:
        names = {*base.users, *file.users}
        edits = {name for name in names if base.users.get(name) != file.users.get(name)}
        current = await self._applier.current(edits)
        form = await self._applier.form(base.users.values(), file.users.values(), current.users.values())
        return await asyncio.to_thread(
            merge,
            base,
            file,
            current,
            edited_at=edited_at,
            form=form,
            again=again,
        )

    async def _carry_out(self, merged: Merge, said_first: Sequence[str] = ()) -> None:
        """Apply the changes, and record them for the page *Configuration*, after `said_first`."""
        for conflict in merged.conflicts:
            log.warning("the file and an app changed the same setting", conflict=conflict)
        renewed = time.monotonic()
        done: list[str] = []
        for change in merged.changes:
            if time.monotonic() - renewed > self._timing.lease / 3:
                if not await self._lease.renew():
                    raise _LeaseLostError
                renewed = time.monotonic()
            try:
                await self._applier.apply(change, self._clock(), vetted=True)
            except RequestError as error:
                # Its subject was removed in the meantime, or the store refuses it: a retry would fail as well.
                log.warning("can't apply a change of backend.json", change=str(change), reason=str(error))
            else:
                log.info("backend.json", change=str(change))
                done.append(str(change))
        await self._applied.note([*said_first, *merged.conflicts, *done], self._clock())
        if merged.changes:
            self._on_applied()

    # --- from the stores to the file ---------------------------------------------------------------------------------

    async def write_back(self) -> bool:
        """Write changes made through the API into the file; True if the file was replaced.

        Does nothing without write-back, or while the file isn't the applied one: `look` must apply it first. If there
        never was a file, the first users create it. Raises StoreError.
        """
        if not self._writes_back:
            return False
        async with self._step:
            if self._creates and not await asyncio.to_thread(os.path.exists, self.path):
                async with self._leased() as held:
                    return held and await self._create()
            found = await self._read()
            if found is None or found[1].document is None:
                return False
            state, document = found[0], found[1].document
            if document.legacy:
                self._notices.warn("legacy", "backend.json has the old form, so changes aren't written back; "
                           f"'{program()} config upgrade' converts it")  # fmt: skip
                return False
            async with self._leased() as held:
                return held and await self._write(document, state)

    async def take_out(self, name: str) -> bool:
        """Remove a user's entry from the file, and apply that; whether there was one.

        Raises InvalidRequest, which says what to do, if only the admin may edit the file: without write-back, if it is
        invalid or in the old form, or if the entry has keys that write-back couldn't restore.
        """
        by_hand = f"remove the entry of '{name}' from {self.path} yourself"
        async with self._step:
            if (found := await self._read()) is None:
                return False
            (state, report), document = found, found[1].document
            if document is None:
                raise InvalidRequest(f"{self.path} is invalid ({report.problems[0]}); correct it first")
            if name not in document.backend.users:
                return False
            if not self._writes_back:
                raise InvalidRequest(f"this server doesn't write to backend.json (MICROSUB_WRITE_BACK): {by_hand}")
            if document.legacy:
                raise InvalidRequest(f"the server doesn't write to a backend.json of the old form: {by_hand}")
            raw = {**document.raw, "users": dict(document.raw["users"])}
            lost = sorted(raw["users"].pop(name).keys() - WRITTEN)
            if lost:
                more = f"'{name}' has keys in {self.path} that a restore would lose ({', '.join(lost)})"
                raise InvalidRequest(f"{more}: {by_hand}")
            try:
                written = await self._replace(document, state, raw)
            except OSError as error:
                raise InvalidRequest(f"can't write backend.json ({error.strerror or error}): {by_hand}") from None
            if written is None:
                raise InvalidRequest("backend.json was changed just now; try again")
        await self.look()
        return True

    async def _write(self, document: BackendDocument, state: FileState) -> bool:
        last = await self._applied.last()
        if last is None and await self._apply(document, state) == "applied":
            self._done = (state.digest, state.edited_at)
            last = await self._applied.last()  # it was lost, and without it nothing would ever be written
        if last is None or last.digest != state.digest or last.backend != document.backend:
            return False
        current = await self._applier.current(declared=document.backend.users.keys())
        if self._written == (state.digest, current):
            return False  # neither the file nor the stores have changed since the last comparison
        form = await self._applier.form(document.backend.users.values(), current.users.values())
        raw = await asyncio.to_thread(edited, document, current, form)
        if raw is None:
            self._written = state.digest, current
            return False
        return await self._write_down(document, state, raw, last)

    async def _create(self) -> bool:
        """Write the first file, if there are users for it and none was ever applied; whether one was written."""
        if await self._applied.last() is not None:
            return False
        current = await self._applier.current(declared=())
        empty = await asyncio.to_thread(parse, b"{}\n", str(self.path), self._environ)
        raw = await asyncio.to_thread(edited, empty, current)
        return raw is not None and await self._write_down(empty, None, raw, None)

    async def _write_down(
        self, document: BackendDocument, state: FileState | None, raw: Mapping[str, Any], last: AppliedFile | None
    ) -> bool:
        """Write `raw` into the file and record it as applied; whether it was written."""
        try:
            written = await self._replace(document, state, raw)
        except OSError as error:
            self._notices.warn("unwritable", f"can't write backend.json: {(error.strerror or str(error)).lower()}")
            return False
        except ConfigError as error:
            # The API allows it but the file doesn't, such as a name of 300 characters: the file stays unchanged.
            self._notices.warn(str(error), f"can't write users' changes to backend.json: {error}")
            return False
        if written is None:
            return False  # it was changed just now
        if await self._remember(written, last):
            self._done = (written.digest, written.edited_at)
        self._notices.is_news("file", written.digest)  # our own change needs no report
        log.info("wrote users' changes to backend.json", file=str(self.path))
        return True

    async def _replace(
        self, document: BackendDocument, state: FileState | None, raw: Mapping[str, Any]
    ) -> AppliedFile | None:
        """Replace the file with `raw`, or create it if there was no `state`; None if it was changed just now.

        Raises OSError, and ConfigError for a document that would be invalid.
        """
        token = secrets.token_hex(4)
        body = (await asyncio.to_thread(rewrite, document.source, stamped(raw, token))).encode()
        new = await self._signed(await asyncio.to_thread(parse, body, str(self.path), self._environ), self._clock())
        await self._applied.announce(token)
        if state is None:
            written = await asyncio.to_thread(self._file.create, body, self._clock())
        else:
            written = await asyncio.to_thread(self._file.replace, body, state.digest, self._clock())
        return self._edit(new, written) if written is not None and written.body == body else None

    @contextlib.asynccontextmanager
    async def _leased(self) -> AsyncIterator[bool]:
        """Try to take the lease for the block; whether this process has it."""
        held = await self._lease.acquire()
        try:
            yield held
        finally:
            if held:
                with contextlib.suppress(StoreError):
                    await self._lease.release()

    # --- the loops ---------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Synchronise both until `stop` is set.

        If Redis is unavailable, that is logged, and the step is retried. A bug is logged too; the next edit of the
        file or change through the API is then tried again.
        """
        tasks = [asyncio.create_task(self._follow_file(stop)), asyncio.create_task(self._follow_data(stop))]
        if self._writes_back:
            tasks.append(asyncio.create_task(self._follow_api(stop)))
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_all(tasks)

    async def _follow_file(self, stop: asyncio.Event) -> None:
        async for _ in self._file.changes(stop):
            await self._look_until_done(stop)

    async def _attempt(self, step: str, act: Callable[[], Awaitable[object]], bug: str) -> object:
        """The result of `act`; `away` if Redis is unavailable, `bug` after a bug. Both are logged."""
        try:
            found = await act()
        except StoreError as error:
            if not self._waiting:
                log.warning("configuration changes are waiting for Redis", reason=str(error))
            self._waiting.add(step)
            return "away"
        except Exception:
            log.exception(bug, file=str(self.path))
            return "bug"
        if self._waiting == {step}:
            log.info("Redis answers again; configuration changes are processed")
        self._waiting.discard(step)
        return found

    async def _look_until_done(self, stop: asyncio.Event) -> None:
        pauses = {"busy": self._timing.retry, "away": self._timing.after_failure}
        bug = "backend.json wasn't applied because of a bug; the next edit is tried again"
        while not stop.is_set():
            outcome = await self._attempt("look", self.look, bug)
            if outcome not in pauses:
                return
            await pause(stop, pauses[str(outcome)])

    async def _follow_data(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._attempt("watch", self.watch_data, "can't check whether Redis still has its data: a bug")
            await pause(stop, self._timing.compare)

    async def _follow_api(self, stop: asyncio.Event) -> None:
        pauses = {"away": self._timing.after_failure, "bug": _AFTER_BUG}
        while not stop.is_set():
            await self._wait_for_changes(stop)
            if stop.is_set():
                break
            outcome = await self._attempt("write back", self.write_back, "API changes weren't written back: a bug")
            if isinstance(outcome, str):
                await pause(stop, pauses[outcome])
        with contextlib.suppress(StoreError):
            await self.write_back()

    async def _wait_for_changes(self, stop: asyncio.Event) -> None:
        """Wait until API changes pause, or it is time to check for those of other processes."""
        await first(stop, self._touched, self._timing.compare)
        latest = time.monotonic() + self._timing.longest_quiet
        while self._touched.is_set() and not stop.is_set() and time.monotonic() < latest:
            self._touched.clear()
            await first(stop, self._touched, self._timing.quiet)


async def first(one: asyncio.Event, other: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set, or for at most `seconds`."""
    tasks = [asyncio.ensure_future(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


# --- reports ---------------------------------------------------------------------------------------------------------


class Notices:
    """Reports on the file at `path`; `last` returns the last applied file, or None."""

    def __init__(self, path: Path, last: Callable[[], Awaitable[object | None]]) -> None:
        self.status = Status()
        self._path = path
        self._last = last
        self._said: dict[str, str] = {}

    def is_news(self, topic: str, key: str) -> bool:
        """Whether the last report on the topic had another `key`."""
        before, self._said[topic] = self._said.get(topic), key
        return before != key

    def warn(self, key: str, sentence: str) -> None:
        """Warn once that the file can't be written; `key` identifies the reason."""
        if self.is_news("writing", key):
            log.warning(sentence, file=str(self._path))

    def set_problems(self, *problems: ConfigError) -> None:
        """Set the present problems of the file."""
        self.status = replace(self.status, problems=problems)
        base.metrics.BACKEND_REFUSED.set(bool(problems))

    def lost(self) -> None:
        """Report that Redis has lost its data."""
        if not self.status.lost:
            log.error(
                "Redis has lost its data: posts, read state, tokens and passwords are gone; "
                "users and follows are created again from backend.json",
                file=str(self._path),
            )
        self.status = replace(self.status, lost=True)

    def found(self) -> None:
        """Report that the file was applied to the new data in Redis."""
        self.status = replace(self.status, lost=False)
        log.info("the server continues with new data", file=str(self._path))

    async def missing(self) -> None:
        """Report that there is no file."""
        if self.is_news("file", "missing"):
            stays = "the last applied configuration stays active"
            none = f"and none was applied before; write one, or add users with '{program()} user add'"
            was_applied = await self._was_applied()
            log.warning(f"no backend.json{'; ' + stays if was_applied else ', ' + none}", file=str(self._path))

    async def refused(self, *problems: ConfigError, key: str) -> None:
        """Report that the file is invalid. `key` identifies its content or its problem."""
        self.set_problems(*problems)
        if self.is_news("file", key):
            more = len(problems) - 1
            stays, none = "the last valid configuration stays active", "none is active until it is corrected"
            log.error(
                f"backend.json refused; {stays if await self._was_applied() else none}",
                problem=str(problems[0]),
                **({"more": f"{more} more, see '{program()} config check {self._path}'"} if more else {}),
            )

    async def _was_applied(self) -> bool:
        """Whether a file was ever applied; assumed to be so while Redis is unavailable."""
        try:
            return await self._last() is not None
        except StoreError:
            return True

    def accepted(self, report: BackendReport, key: str) -> None:
        """Report that the file is valid, and its warnings."""
        if self.status.problems:
            log.info("backend.json is valid again", file=str(self._path))
        self.set_problems()
        for warning in report.warnings if self.is_news("file", key) else ():
            log.warning("backend.json", warning=warning)
