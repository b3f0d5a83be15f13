"""Engines that keep the data: Valkey and Redis, with their versions.

Every engine reads the files of its own older versions. Valkey began as Redis 7.2 and reads the files of that and of
older ones; the way back is closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

Version = tuple[int, ...]

REDIS, VALKEY = "Redis", "Valkey"
_SHARED: Version = (7, 2)
"""The last version of Redis that Valkey reads."""

_NAMED = re.compile(rf"(?:({REDIS}|{VALKEY}) )?(\d{{1,9}}(?:\.\d{{1,9}})+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine and its version; as text, `Valkey 9.1.2`."""

    name: str
    version: Version

    @classmethod
    def parse(cls, text: str) -> Self:
        """The engine of such a text; one without a name is Redis, as in older records. Raises ValueError."""
        found = _NAMED.fullmatch(text)
        if found is None:
            raise ValueError(text)
        return cls(found[1] or REDIS, tuple(int(part) for part in found[2].split(".")))

    @classmethod
    def of_info(cls, info: Mapping[str, object]) -> Self:
        """The engine that answered INFO, section `server`, with these fields. Raises ValueError."""
        valkey = info.get("valkey_version")
        return cls.parse(f"{VALKEY} {valkey}" if valkey else f"{REDIS} {info.get('redis_version')}")

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"

    @property
    def release(self) -> Self:
        """The engine without its patch release, which changes no file format."""
        return type(self)(self.name, self.version[:2])

    def reads(self, other: Self) -> bool:
        """Whether it can read files that `other` has written."""
        if self.name == other.name:
            return self.version[:2] >= other.version[:2]
        return self.name == VALKEY and other.version[:2] <= _SHARED
