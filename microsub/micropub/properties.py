"""Posted content as a microformats item, whatever its format. Pure.

Forms, microformats JSON and jf2 (https://jf2.spec.indieweb.org/) are converted to the same form: a type, and properties
each of which is a list. `mp-*` properties are commands to the server and aren't kept, nor are tokens; unknown
properties are kept (https://www.w3.org/TR/micropub/#create).

All errors are InvalidRequest and say what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import shown

MOST_PROPERTIES = 200
MOST_VALUES = 2_000
"""Values of a post, nested values included."""
MOST_BYTES = 500_000
"""Maximum size of a post as JSON: five times the text that is shown of any post."""
DEEPEST = 12
"""Maximum nesting of items and lists, the same as for pages."""

Properties = dict[str, list[Any]]

_NOT_KEPT = frozenset({"access_token", "h", "action"})
_NAME = re.compile(r"([^\[\]]{1,200})((?:\[[^\[\]]{0,200}\])*)\Z")
_KEY = re.compile(r"\[([^\[\]]*)\]")
_TYPE = re.compile(r"(?:h-)?([a-z0-9-]{1,40})\Z")
_CONTENT = frozenset({"html", "text", "content-type"})


@dataclass(frozen=True, slots=True)
class PostedItem:
    """A posted item: `kind` is a root class such as `h-entry`."""

    kind: str
    properties: Properties

    def encoded(self) -> bytes:
        """As JSON, which `read` reads."""
        return orjson.dumps({"type": [self.kind], "properties": self.properties})

    @classmethod
    def read(cls, data: str | bytes) -> PostedItem:
        """Read the output of `encoded`."""
        found = orjson.loads(data)
        return cls(found["type"][0], found["properties"])

    @property
    def own_names(self) -> Sequence[str]:
        """The author's names for the post, which identify it when it is sent again: `uid`, `url`."""
        return [value for name in ("uid", "url") for value in self.properties.get(name, []) if isinstance(value, str)]


def of_form(pairs: Iterable[tuple[str, str]]) -> PostedItem:
    """Read a form: `name`, `name[]` and `name[0]` are values, `content[html]` a part of one."""
    kind, found = "", dict[str, dict[str, Any]]()
    for field, value in pairs:
        match = _NAME.match(field)
        if match is None:
            raise InvalidRequest(f"'{shown(field)}' isn't a valid property name")
        name, keys = match[1], _KEY.findall(match[2])
        if name == "h":
            kind = kind or value
        elif value and _is_kept(name):
            _put(found.setdefault(name, {}), keys, value)
    return checked(kind or "entry", {name: _members(values) for name, values in found.items()})


def _put(values: dict[str, Any], keys: Sequence[str], value: str) -> None:
    """Store a value at the keys after its name: a number or '' is an index, any other a part."""
    at, part = (keys[0], keys[1:]) if keys and (keys[0].isdigit() or not keys[0]) else ("", keys)
    if not part:
        values[at if at and at not in values else f"next {len(values)}"] = value
        return
    whole = values.setdefault(f"parts {at}", {})
    for key in part[:-1]:
        whole = whole.setdefault(key, {})
        if not isinstance(whole, dict):  # a text has no parts
            return
    whole[part[-1]] = value


def _members(values: Mapping[str, Any]) -> list[Any]:
    numbered = sorted((key for key in values if key.isdigit()), key=lambda key: (len(key), key))
    return [values[key] for key in numbered] + [value for key, value in values.items() if not key.isdigit()]


def of_json(document: Mapping[str, Any]) -> PostedItem:
    """Read a microformats item, or a post in jf2."""
    properties = document.get("properties")
    if properties is None:
        return checked(_jf2_type(document), {name: _of_jf2(name, value) for name, value in _jf2_members(document)})
    if not isinstance(properties, dict):
        raise InvalidRequest("'properties' can't be used: expected an object")
    kinds = document.get("type") or ["h-entry"]
    kind = kinds[0] if isinstance(kinds, list) else kinds
    kept = {name: _listed(value) for name, value in properties.items() if _is_kept(name)}
    return checked(kind if isinstance(kind, str) else "", kept)


def _jf2_type(document: Mapping[str, Any]) -> str:
    kind = document.get("type", "entry")
    return kind if isinstance(kind, str) else ""


def _jf2_members(document: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((name, value) for name, value in document.items() if name != "type" and _is_kept(name))


def _of_jf2(name: str, value: Any) -> list[Any]:
    """The values of a jf2 property: typed objects are items, content may be HTML and text."""
    found = []
    for one in _listed(value):
        if name in {"content", "summary"} and isinstance(one, dict) and _CONTENT.issuperset(one):
            html, text = one.get("html"), one.get("text")
            found.append({"html": html, **({"value": text} if text else {})} if html else text)
        elif isinstance(one, dict) and isinstance(one.get("type"), str):
            members = {name: _listed(part) for name, part in one.items() if name != "type"}
            found.append({"type": [f"h-{one['type']}"], "properties": members})
        else:
            found.append(one)
    return found


def _listed(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if one is not None and one != ""]


def _is_kept(name: str) -> bool:
    return name not in _NOT_KEPT and not name.startswith("mp-")


def checked(kind: str, properties: Properties) -> PostedItem:
    """An item within its bounds. Raises InvalidRequest for one that is too large, too deep or empty."""
    match = _TYPE.match(kind)
    if match is None:
        raise InvalidRequest(f"the type can't be '{shown(kind)}': expected a type such as 'h-entry'")
    kept = {name: values for name, values in properties.items() if values}
    if not kept:
        raise InvalidRequest("the post is empty: expected at least one property, such as 'content'")
    if len(kept) > MOST_PROPERTIES or _count(list(kept.values())) > MOST_VALUES:
        raise InvalidRequest(
            f"the post is too large: expected at most {MOST_PROPERTIES} properties with {MOST_VALUES} values in total"
        )
    item = PostedItem(f"h-{match[1]}", kept)
    if len(item.encoded()) > MOST_BYTES:
        raise InvalidRequest(f"the post is too large: expected at most {MOST_BYTES} bytes as JSON")
    return item


def _count(value: Any, depth: int = 0) -> int:
    if depth > 3 * DEEPEST:
        raise InvalidRequest(f"the post can't be used: its items are nested more than {DEEPEST} levels deep")
    if not isinstance(value, dict | list):
        return 1
    return sum(_count(part, depth + 1) for part in (value.values() if isinstance(value, dict) else value))


# --- changes --------------------------------------------------------------------------------------------------------


def updated(item: PostedItem, document: Mapping[str, Any]) -> PostedItem:
    """The item after an update's `replace`, `add` and `delete`, in this order.

    All values must be lists, or the whole request is refused (https://www.w3.org/TR/micropub/#update).
    """
    found = dict(item.properties)
    replaced, added = _lists(document, "replace"), _lists(document, "add")
    if "delete" not in document and not replaced and not added:
        raise InvalidRequest("the update is empty: expected 'replace', 'add' or 'delete'")
    found |= replaced
    for name, values in added.items():
        found[name] = [*found.get(name, []), *_without(values, found.get(name, []))]
    for name, doomed in _deleted(document.get("delete", [])).items():
        found[name] = [] if doomed is None else _without(found.get(name, []), doomed)
    return checked(item.kind, found)


def _without(values: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """The values that aren't among the others, as JSON: comparing all pairs could take a second."""
    known = {orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in others}
    return [value for value in values if orjson.dumps(value, option=orjson.OPT_SORT_KEYS) not in known]


def _lists(document: Mapping[str, Any], name: str) -> Properties:
    given = document.get(name, {})
    if not isinstance(given, dict) or not all(isinstance(values, list) for values in given.values()):
        raise InvalidRequest(f"'{name}' can't be used: expected an object whose members are all lists")
    return {of: _listed(values) for of, values in given.items() if _is_kept(of)}


def _deleted(given: Any) -> Mapping[str, list[Any] | None]:
    """The values to delete by property; None deletes all values."""
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        return dict.fromkeys(given)
    if isinstance(given, dict) and all(isinstance(values, list) for values in given.values()):
        return given
    raise InvalidRequest("'delete' can't be used: expected a list of property names, or an object of lists")
