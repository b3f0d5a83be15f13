"""A backend file, the real stores on any Redis, and the configuration service between them."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from microsub.administration import Applier
from microsub.configuration.sync import Configuration, Timing
from microsub.model.settings import OwnChannelSettings
from microsub.timelines.channels import Channels
from tests.support.timelines import Wired

NOW = 1_700_000_000.0

QUICK = Timing(lease=5.0, retry=0.01, settle=0.01, quiet=0.02, longest_quiet=0.2, compare=0.1, after_failure=0.01)


@dataclass
class Clock:
    """Unix time that a test sets."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


def own_settings(channels: Channels) -> Callable[[str, str], Awaitable[OwnChannelSettings]]:
    """What `SettingsInForce` asks for a channel's own settings."""

    async def own(user: str, uid: str) -> OwnChannelSettings:
        return (await channels.get(user, uid)).settings

    return own


@dataclass
class Configured(Wired):
    """One server's view: `file` on its disk, `redis` shared with others."""

    file: Path
    write_back: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    timing: Timing = QUICK

    def __post_init__(self) -> None:
        self.applier = Applier(self.accounts, self.channels, self.feeds, self.rules, self.following, self.applied)
        self.configuration = self.server()

    def server(self) -> Configuration:
        """Another process with the same file and the same Redis."""
        return Configuration(
            self.file,
            self.applied,
            self.applier,
            write_back=self.write_back,
            environ=self.environ,
            clock=self.clock,
            timing=self.timing,
        )

    def save(self, document: Mapping[str, Any] | str, at: float | None = None) -> None:
        """What an editor does: write a file beside it and rename it. `at` sets the time of modification."""
        text = document if isinstance(document, str) else json.dumps(document, indent=2)
        temporary = self.file.with_suffix(".part")
        temporary.write_text(text)
        if at is not None:
            os.utime(temporary, (at, at))
        temporary.replace(self.file)

    def saved(self) -> Any:
        """The document in the file now."""
        return json.loads(self.file.read_text())

    async def state(self) -> dict[str, Any]:
        """Users as {name: {uid: (name, [urls])}}, disabled ones left out, `notifications` where it has feeds."""
        current = await self.applier.current()
        return {
            name: {
                channel.uid: (channel.name, [feed.url for feed in channel.feeds])
                for channel in user.channels
                if channel.uid != "notifications" or channel.feeds
            }
            for name, user in current.users.items()
        }
