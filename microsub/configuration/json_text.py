"""JSON text with the lines of its values, and edits that leave the rest untouched.

`read` is strict (RFC 8259, and no duplicate keys in an object). `rewrite` keeps the text of unchanged parts, so that a
diff of the file shows only real changes.

`${NAME}` in text stands for an environment variable, so that secrets stay in the environment. `$${NAME}` stands for
the text `${NAME}`. Keys are never expanded, and neither is anything that is written back.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from microsub.base.errors import ConfigError

Path = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_PLAIN = re.compile(r"[A-Za-z0-9_$-]+\Z")
_WIDTH = 100
"""New lists and objects of plain values up to this many characters go on one line."""

_LEVELS = 100
"""How deep lists and objects may be nested; deeper nesting would reach Python's recursion limit."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its position in `text`; `items` are the members of an object or the elements of a list."""

    text: str = field(repr=False)
    value: Any
    start: int
    end: int
    items: Mapping[str | int, Node] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line (from 1) of the value at `path`, or of its nearest container that exists."""
        node = self
        for key in path:
            child = node.items.get(key)
            if child is None:
                break
            node = child
        return self.text.count("\n", 0, node.start) + 1


def show(path: Path) -> str:
    """A path for people, such as `users.alice.channels[0].uid`."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif _PLAIN.match(key):
            text += f".{key}" if text else key
        else:
            text += f"[{json.dumps(key, ensure_ascii=False)}]"
    return text


def read(body: bytes, file: str) -> Node:
    """Read a document. Raises ConfigError with line and column of invalid JSON or a duplicate key."""

    def fault(found: str, expected: str, **place: int) -> ConfigError:
        return ConfigError(file=file, path="", found=found, expected=expected, **place)

    def refuse(word: str) -> NoReturn:
        raise fault(word, "a finite number")

    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise fault(f"the byte 0x{body[error.start]:02x}, which isn't UTF-8", "UTF-8 text", line=line) from None
    if not text.strip():
        raise fault("an empty file", "a JSON object", line=1, column=1)
    try:
        json.loads(text, parse_constant=refuse)
        root, _ = _scan(text, _skip(text, 0))
        json.dumps(root.value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise fault(*_explained(text, error), line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise fault("lists or objects nested too deeply", f"at most {_LEVELS} levels") from None
    except UnicodeEncodeError:
        raise fault("half of a surrogate pair (\\ud8… to \\udf…)", "complete characters") from None
    except ValueError:  # Python's own limit
        raise fault("a number of more than 4,300 digits", "fewer digits") from None
    return root


_TWICE = "a second time in one object"


def _explained(text: str, error: json.JSONDecodeError) -> tuple[str, str]:
    """The found and expected text at the error.

    Of the file's text only punctuation is shown: anything else may be a part of a secret, whatever its key is called.
    """
    position = error.pos
    if error.msg.endswith(_TWICE):
        return error.msg, "each key only once"
    before = text[:position].rstrip()
    around = text[position : position + 20].partition("\n")[0].strip()
    end = "the end of the line" if position < len(text.rstrip()) else "the end of the file"
    expected = {
        "Expecting ',' delimiter": "a comma or a closing bracket",
        "Expecting ':' delimiter": "a colon after the key",
        "Expecting value": "a value: text in double quotes, a number, true, false, null, a list or an object",
        "Expecting property name enclosed in double quotes": "a key in double quotes",
        "Extra data": "the end of the file",
    }.get(error.msg, f"valid JSON ({error.msg[:1].lower()}{error.msg[1:]})")
    if around[:1] in "]}" and around and before.endswith(","):
        expected += " after the comma (JSON allows no comma before a closing bracket)"
    elif around.startswith(("//", "/*", "#")):
        expected += " (JSON allows no comments)"
    if around and around[0] not in "]}[{,:":
        return "a word without quotes" if around[0].isalpha() else "a text that isn't shown", expected
    return f"'{around[0]}'" if around else end, expected


# --- places (the text is known to be valid JSON here) ------------------------------------------------------------


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _scan(text: str, start: int, level: int = 0) -> tuple[Node, int]:
    if level > _LEVELS:
        raise RecursionError
    if text[start] not in "{[":
        value, end = _DECODER.raw_decode(text, start)
        return Node(text, value, start, end), end
    is_object = text[start] == "{"
    items: dict[str | int, Node] = {}
    position = _skip(text, start + 1)
    while text[position] not in "}]":
        key: str | int = len(items)
        if is_object:
            key_at = position
            key, position = _DECODER.raw_decode(text, position)
            if key in items:
                raise json.JSONDecodeError(f"the key '{key}' {_TWICE}", text, key_at)
            position = _skip(text, _skip(text, position) + 1)  # the colon
        items[key], position = _scan(text, position, level + 1)
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    values = {key: node.value for key, node in items.items()}
    return Node(text, values if is_object else list(values.values()), start, position + 1, items), position + 1


# --- writing -----------------------------------------------------------------------------------------------------


def rewrite(original: Node, document: Mapping[str, Any]) -> str:
    """The text of `document`; unchanged parts keep their original text."""
    text = original.text
    indent = re.search(r"\n([ \t]+)\S", text)
    writer = _Writer(text, indent.group(1) if indent else "  ", "\r\n" if "\r\n" in text else "\n")
    written = writer.value(document, original, "")
    return text[: original.start] + written + text[original.end :]


@dataclass(frozen=True, slots=True)
class _Writer:
    text: str
    indent: str
    newline: str

    def value(self, value: Any, node: Node | None, margin: str) -> str:
        if node is not None and _same(value, node.value):
            return self.text[node.start : node.end]
        if isinstance(value, Mapping) and value:
            if node is None and self._short(value):
                return json.dumps(value, ensure_ascii=False)
            inner, old = margin + self.indent, node.items if node else {}
            members = [
                f"{json.dumps(key, ensure_ascii=False)}: {self.value(part, old.get(key), inner)}"
                for key, part in value.items()
            ]
            return self._lines("{", members, "}", margin)
        if isinstance(value, list) and value:
            parts = [
                self.value(part, near, margin + self.indent)
                for part, near in zip(value, _pair(value, node), strict=True)
            ]
            return self._lines("[", parts, "]", margin)
        return json.dumps(value, ensure_ascii=False)

    def _short(self, value: Mapping[str, Any]) -> bool:
        plain = not any(isinstance(part, Mapping | list) and part for part in value.values())
        return plain and len(json.dumps(value, ensure_ascii=False)) <= _WIDTH

    def _lines(self, opening: str, parts: Sequence[str], closing: str, margin: str) -> str:
        inner = self.newline + margin + self.indent
        return opening + inner + ("," + inner).join(parts) + self.newline + margin + closing


def _same(one: Any, other: Any) -> bool:
    """Equality that distinguishes 1 from true, and regards the order of keys."""
    return json.dumps(one) == json.dumps(other)


def _pair(values: list[Any], node: Node | None) -> list[Node | None]:
    """For each new element, the old element it comes from: an equal one, or one with the same uid or URL.

    Each old element is used once, the first match first.
    """
    left = dict(enumerate(node.items.values() if node else ()))
    pairs: list[Node | None] = [None] * len(values)
    for form in (json.dumps, _identity):
        unpaired: dict[Any, deque[int]] = {}
        for place, child in left.items():
            unpaired.setdefault(form(child.value), deque()).append(place)
        for index, value in enumerate(values):
            if pairs[index] is None and (key := form(value)) is not None and unpaired.get(key):
                pairs[index] = left.pop(unpaired[key].popleft())
    return pairs


def _identity(value: Any) -> str | None:
    named = (value.get("uid") or value.get("url")) if isinstance(value, Mapping) else None
    return named if isinstance(named, str) else None


# --- variables -----------------------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"(\$?)\$\{([^}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Missing = Callable[[Path, str], None]
"""Called for each variable that isn't set or isn't text, with its path and name."""


def expand(value: Any, environ: Mapping[str, str], missing: Missing, path: Path = ()) -> Any:
    """A copy of `value` with variables replaced; missing variables are reported and stay."""

    def replace(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        if escaped:
            return match.group()[1:]
        if not _VARIABLE_NAME.match(name) or not _is_text(environ.get(name)):
            missing(path, name)
            return match.group()
        return environ[name]

    if isinstance(value, str):
        return _VARIABLE.sub(replace, value)
    if isinstance(value, Mapping):
        return {key: expand(part, environ, missing, (*path, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [expand(part, environ, missing, (*path, index)) for index, part in enumerate(value)]
    return value


def _is_text(value: str | None) -> bool:
    """Whether it can be stored: bytes that aren't UTF-8 become halves of surrogate pairs."""
    return value is not None and not any("\ud800" <= letter <= "\udfff" for letter in value)


def escape(text: str) -> str:
    """Text that expands to `text`, for users' text that is written into the file."""
    return re.sub(r"\$\{", "$${", text)


def has_variable(value: Any) -> bool:
    """Whether text contains a variable, so that its expansion may be a secret."""
    return isinstance(value, str) and any(not match.group(1) for match in _VARIABLE.finditer(value))
