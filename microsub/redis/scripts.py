"""Lua scripts: files `lua/<name>.lua` in the package that they serve, with unique names.

The head of each says what must be atomic in it, and lists its KEYS, ARGV and reply. They are called by the names in it
(`Parameter`): `load("rule_write")(user, uid=uid, url=url)`.

Functions that several scripts share are in `redis/lua/parts/`; a line `-- include: <part>` inserts that file's text
before the script's own. They are local functions, so a script remains one self-contained text for Redis. The part
`reasons` is generated from `model.reader.Reason`: a local variable for each, their number `REASONS`, and the table
`MAY_RETURN`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from microsub.model.reader import Reason
from microsub.redis import keys
from microsub.redis.protocol import Script, ScriptCall

_PACKAGE = Path(__file__).parents[1]
_PARTS = Path(__file__).parent / "lua" / "parts"
_Part = TypeVar("_Part")

_HEAD = re.compile(r"^-- (KEYS|ARGV)  (.*(?:\n--  .*)*)", re.MULTILINE)
_PARAMETER = re.compile(r"(?:^|  |\n-- +)(\d+)(?:(?:-|, )(\d+)|(\.\.))? (\w+)(\?)?(?=:|  |\n|$)")

BATCH = 1000
"""Maximum members per script call or command, so that it blocks Redis for only a few milliseconds."""


class Parameter(NamedTuple):
    """A name in the head of a script: of one value, of a fixed number, or of any (`values` None).

    In the head it follows its number (`2 now`), its first and last one (`3-5 shown`), or the first with dots
    (`6.. ids`), and precedes `:` and a description. An optional key (`7 token?`) may be left out with all that follow;
    an optional argument is '' then. A key that is called as in `redis.keys`, and an argument `<key>_pattern`, are made
    by `key` from the owner of the keys, if they aren't given.
    """

    name: str
    values: int | None
    is_optional: bool
    key: Callable[[Sequence[str]], str] | None


@dataclass(frozen=True, slots=True)
class NamedScript(Script):
    """A script with what its head names."""

    keys: Sequence[Parameter] = field(init=False)
    args: Sequence[Parameter] = field(init=False)

    def __post_init__(self) -> None:
        Script.__post_init__(self)
        heads = dict(_HEAD.findall(self.text))
        object.__setattr__(self, "keys", _parameters(heads.get("KEYS", ""), _key))
        object.__setattr__(self, "args", _parameters(heads.get("ARGV", ""), _pattern))

    def __call__(self, *owner: str, **given: Any) -> ScriptCall:
        """The call with these keys and arguments, by name, and with the keys of `owner`.

        That is a user, feed or the like, with the name of a channel, token … if it is that one's keys. Raises TypeError
        (a bug) for names that are missing or unknown, and for a wrong number of values.
        """
        try:
            there = takewhile(lambda key: not key.is_optional or key.name in given, self.keys)
            call = self, _taken(there, owner, given), _taken(self.args, owner, given)
        except (KeyError, ValueError) as error:
            raise TypeError(f"{self.name}.lua: {error}") from error
        if given:
            raise TypeError(f"{self.name}.lua: unknown, or without the key before: {', '.join(given)}")
        return call


def _key(name: str) -> Callable[[Sequence[str]], str] | None:
    made = getattr(keys, name, None)
    count = made.__code__.co_argcount if made else 0
    return (lambda owner: made(*owner[:count])) if made and count else None


def _pattern(name: str) -> Callable[[Sequence[str]], str] | None:
    made = getattr(keys, name.removesuffix("_pattern"), None) if name.endswith("_pattern") else None
    return (lambda owner: keys.pattern(made, owner[0])) if made else None


def _parameters(head: str, key: Callable[[str], Callable[[Sequence[str]], str] | None]) -> tuple[Parameter, ...]:
    """What the `KEYS` or `ARGV` of a head name. Raises ValueError (a bug) if the numbers aren't consecutive."""
    found, after = [], 1
    for first, last, rest, name, optional in _PARAMETER.findall(head):
        if int(first) != after:
            raise ValueError(f"the head of a script has {first} {name}: expected {after}")
        after = int(last or first) + 1
        found.append(Parameter(name, None if rest else after - int(first), bool(optional), key(name)))
    return tuple(found)


def _taken(parameters: Iterable[Parameter], owner: Sequence[str], given: dict[str, Any]) -> list[Any]:
    taken: list[Any] = []
    for name, number, is_optional, key in parameters:
        if number == 1 and name in given:
            taken.append(given.pop(name))
        elif number == 1 and key is not None and owner:
            taken.append(key(owner))
        elif number == 1 and is_optional:
            taken.append("")
        else:
            values = given.pop(name) if number is not None else given.pop(name, ())
            if number not in {None, len(values)}:
                raise ValueError(f"found {len(values)} values of {name}, expected {number}")
            taken += values
    return taken


@cache
def script_files() -> dict[str, Path]:
    """The path of each script, by its name. Raises ValueError if two have the same (a bug)."""
    found: dict[str, Path] = {}
    for path in (path for depth in ("*", "*/*") for path in _PACKAGE.glob(f"{depth}/lua/*.lua")):
        if found.setdefault(path.stem, path) != path:
            raise ValueError(f"two scripts have the name {path.stem}")
    return found


@cache
def load(name: str) -> NamedScript:
    """The script of that name. Raises KeyError for an unknown name, ValueError for a wrong head (bugs)."""
    text = script_files()[name].read_text(encoding="utf-8")
    parts = re.findall(r"^-- include: (\w+)$", text, re.MULTILINE)
    script = NamedScript(name, "\n".join([*map(_part, parts), text]))
    for what, listed in (("KEYS", script.keys), ("ARGV", script.args)):
        used = max(map(int, re.findall(rf"{what}\[(\d+)\]", text)), default=0)
        if used > sum(one.values or math.inf for one in listed):
            raise ValueError(f"{name}.lua uses {what}[{used}], which its head doesn't list")
    return script


def _part(name: str) -> str:
    if name == "reasons":
        returning = ", ".join(f"[{reason.value}] = true" for reason in Reason if reason.may_return)
        names = "".join(f"local {reason.name} = {reason.value}\n" for reason in Reason)
        return f"{names}local REASONS = {max(Reason)}\nlocal MAY_RETURN = {{ {returning} }}\n"
    return (_PARTS / f"{name}.lua").read_text(encoding="utf-8")


def batches(parts: Sequence[_Part], size: int = BATCH) -> Iterator[Sequence[_Part]]:
    """`parts` in slices of at most `size`."""
    for start in range(0, len(parts), size):
        yield parts[start : start + size]
