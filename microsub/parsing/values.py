"""Values of frozen dataclasses as JSON, and back by their types: reading it makes such values and runs no code."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson

from microsub.model.jf2 import Card, Entry

Reader = Callable[[Any], Any]

_ONLY_ENTRIES_HAVE = "guid"


def dumps(value: Any) -> bytes:
    """`value` as JSON: dataclasses as objects, datetimes in ISO 8601, bytes as the text that they are in UTF-8, or in a
    list as Latin-1. Halves of surrogate pairs, which have no UTF-8 form, become U+FFFD.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except orjson.JSONEncodeError:
        return orjson.dumps(_whole(value), default=_plain)


@cache
def reader(hint: Any) -> Reader:
    """A function that turns the JSON of a value of that type into the value. It raises TypeError, ValueError, KeyError
    or AttributeError for any other JSON.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _either(arguments)
    if origin in {tuple, list, frozenset}:
        member = reader(arguments[0])
        return lambda values: origin(map(member, _checked(values, list)))
    if origin in {Mapping, dict}:
        value = reader(arguments[1])
        return lambda values: {key: value(each) for key, each in values.items()}
    if origin is Literal:
        return lambda value: arguments[arguments.index(value)]
    if hint is datetime:
        return datetime.fromisoformat
    if hint is bytes:
        return _bytes
    if hint is float:
        return lambda value: float(_checked(value, int | float))
    if hint in {str, int, bool}:
        return _exactly(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_reader(hint)
    raise TypeError(f"no rule reads {hint}")


def _exactly(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is kind:  # True is an int
            return value
        raise TypeError(f"found {type(value).__name__}, expected {kind}")

    return read


def _checked(value: Any, kind: Any) -> Any:
    if isinstance(value, kind):
        return value
    raise TypeError(f"found {type(value).__name__}, expected {kind}")


def _bytes(value: Any) -> bytes:
    if type(value) is str:
        return value.encode()
    (text,) = _checked(value, list)
    return _checked(text, str).encode("latin-1")  # type: ignore[no-any-return]


def _either(choices: tuple[Any, ...]) -> Reader:
    others = tuple(choice for choice in choices if choice is not type(None))
    if set(others) == {Entry, Card}:
        # Looked up late: an entry's refs hold entries.
        read: Reader = lambda value: reader(Entry if _ONLY_ENTRIES_HAVE in value else Card)(value)  # noqa: E731
    elif len(others) == 1:
        read = reader(others[0])
    else:
        raise TypeError(f"no rule tells {choices} apart")
    return (lambda value: None if value is None else read(value)) if len(others) < len(choices) else read


def _dataclass_reader(cls: type) -> Reader:
    members: dict[str, tuple[Any, Reader]] = {}

    def read(values: dict[str, Any]) -> Any:
        if not members:  # late as well: a class may name itself
            hints = get_type_hints(cls)
            members.update({field.name: (_default(field), reader(hints[field.name])) for field in fields(cls)})
        given = {}
        for name, value in values.items():
            default, member = members[name]
            if value != default:  # most members of most values are what they are by default
                given[name] = member(value)
        return cls(**given)

    return read


def _default(field: Field[Any]) -> Any:
    """The JSON of a member that isn't given; what equals no JSON where it must be."""
    value = field.default if field.default_factory is MISSING else field.default_factory()
    return MISSING if value is MISSING else orjson.loads(dumps(value))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return [value.decode("latin-1")]
    if isinstance(value, frozenset):
        return list(value)
    raise TypeError(f"no rule writes {type(value)}")


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _whole(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_whole(key): _whole(each) for key, each in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [_whole(each) for each in value]
    return value
