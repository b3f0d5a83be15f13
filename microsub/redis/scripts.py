"""Lua scripts: files `lua/<name>.lua` in the package that they serve, with unique names.

The head of each says what must be atomic in it, and lists its KEYS, ARGV and reply.

Functions that several scripts share are in `redis/lua/parts/`; a line `-- include: <part>` inserts that file's text
before the script's own. They are local functions, so a script remains one self-contained text for Redis. The part
`reasons` is generated from `model.reader.Reason`: a local variable for each, and the table `MAY_RETURN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from microsub.model.reader import Reason
from microsub.redis.protocol import Script

_PACKAGE = Path(__file__).parents[1]
_PARTS = Path(__file__).parent / "lua" / "parts"
_Part = TypeVar("_Part")

BATCH = 1000
"""Maximum members per script call or command, so that it blocks Redis for only a few milliseconds."""


@cache
def script_files() -> dict[str, Path]:
    """The path of each script, by its name."""
    return {path.stem: path for depth in ("*", "*/*") for path in _PACKAGE.glob(f"{depth}/lua/*.lua")}


@cache
def load(name: str) -> Script:
    """The script of that name. Raises KeyError (a bug) for an unknown name."""
    text = script_files()[name].read_text(encoding="utf-8")
    parts = re.findall(r"^-- include: (\w+)$", text, re.MULTILINE)
    return Script(name, "\n".join([*map(_part, parts), text]))


def _part(name: str) -> str:
    if name == "reasons":
        returning = ", ".join(f"[{reason.value}] = true" for reason in Reason if reason.may_return)
        names = "".join(f"local {reason.name} = {reason.value}\n" for reason in Reason)
        return f"{names}local MAY_RETURN = {{ {returning} }}\n"
    return (_PARTS / f"{name}.lua").read_text(encoding="utf-8")


def batches(parts: Sequence[_Part], size: int = BATCH) -> Iterator[Sequence[_Part]]:
    """`parts` in slices of at most `size`."""
    for start in range(0, len(parts), size):
        yield parts[start : start + size]
