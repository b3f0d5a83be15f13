"""Parses backend.json to a `Backend`, or to ConfigErrors with path and line.

`shape.check_shape` checks single values; duplicates and related values are checked here. A key that looks misspelt is
an error, because it would otherwise be ignored silently. Any other unknown key is a warning, and stays in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any

from microsub import configuration  # pydantic takes long to load, and only the check of a file needs it
from microsub.base.errors import ConfigError, InvalidRequest
from microsub.base.settings import mask_password
from microsub.base.urls import canonical_feed_url, is_usable, normalise_person, parts_of, without_credentials
from microsub.configuration import json_text, legacy
from microsub.configuration.facts import Change, Current, merge
from microsub.configuration.json_text import Node, Path, expand, has_variable, show
from microsub.configuration.legacy import ENDPOINT_UNUSED
from microsub.configuration.model import (
    NAME,
    URL,
    Backend,
    OutputConfig,
    PublicFeedConfig,
    SignInConfig,
    decode,
    kind_at,
)
from microsub.model.settings import NOTES, POST_TYPES
from microsub.model.sign_ins import MOST_BYTES, MOST_HEADERS, sign_in_headers

UNUSABLE_UIDS = ("global", "saved")
"""Uids with another meaning in the protocol. `notifications` may be declared, to give it feeds and settings."""

ENDPOINT_IN_CLEAR = (
    "is not https, so no token is accepted: tokens are sent over plain http only to MICROSUB_ALLOW_PRIVATE_NETWORKS"
)

_CLOSE = 0.75

_SIGN_IN = len(("users", "alice", "channels", 0, "feeds", 0))
"""Where in a path the sign-in of a feed stands."""


@dataclass(frozen=True, slots=True)
class BackendDocument:
    """A valid backend.json.

    `source` is the text of the file; `raw` is its value in the current form, with nothing expanded; `legacy` says
    whether the file has the old single-user form.
    """

    file: str
    source: Node
    raw: Mapping[str, Any]
    backend: Backend
    legacy: bool


@dataclass(frozen=True, slots=True)
class BackendReport:
    """All problems and warnings, and the document if there is no problem."""

    file: str
    problems: tuple[ConfigError, ...]
    warnings: tuple[str, ...]
    document: BackendDocument | None

    @property
    def ok(self) -> bool:
        """Whether the server would accept this file."""
        return not self.problems


def examine(body: bytes, file: str, environ: Mapping[str, str]) -> BackendReport:
    """Check a whole document; never raises ConfigError."""
    try:
        source = json_text.read(body, file)
    except ConfigError as error:
        return BackendReport(file, (error,), (), None)
    findings = BackendFindings(file, source)
    document = source.value
    old = legacy.is_legacy(document)
    raw = legacy.upgrade(document, findings) if old else document
    expanded = expand(raw, environ, lambda path, name: _missing(findings, path if not old else (), name, environ))
    if not (old and findings.problems):
        warnings = list(findings.warnings)
        validate(expanded, findings)
        if old:
            findings.warnings = warnings  # the new ones name places that the old file doesn't have
    problems, warned = findings.errors(), tuple(findings.warnings)
    if problems:
        return BackendReport(file, problems, warned, None)
    usable = BackendDocument(file, source, raw, decode(Backend, expanded), old)
    return BackendReport(file, (), warned, usable)


def _missing(findings: BackendFindings, path: json_text.Path, name: str, environ: Mapping[str, str]) -> None:
    why = "whose value isn't UTF-8" if name in environ else "which isn't set"
    findings.wrong(path, f"'${{{name}}}', {why}", f"an environment variable named {name or '…'}")


def parse(body: bytes, file: str, environ: Mapping[str, str]) -> BackendDocument:
    """The document. Raises the first ConfigError, if there are any."""
    report = examine(body, file, environ)
    if report.document is None:
        raise report.problems[0]
    return report.document


def check(path: FilePath, environ: Mapping[str, str]) -> BackendReport:
    """Check the file at `path`; an unreadable file is reported as a problem."""
    try:
        body = path.read_bytes()
    except OSError as error:
        return BackendReport(str(path), (unreadable(path, error),), (), None)
    return examine(body, str(path), environ)


def unreadable(path: FilePath, error: OSError) -> ConfigError:
    """The ConfigError for a file that can't be read."""
    match error:
        case FileNotFoundError():
            found = "no file"
        case IsADirectoryError():
            found = "a folder"
        case PermissionError():
            found = "a file that this system user can't read"
        case _:
            found = f"an error ({error.strerror or error})"
    return ConfigError(file=str(path), path="", found=found, expected="a readable backend.json")


@dataclass
class BackendFindings:
    """Problems and warnings, in the order of the file; `source` has lines and unexpanded text."""

    file: str
    source: Node
    problems: list[tuple[int, ConfigError]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)

    def wrong(self, path: Path, found: str, expected: str) -> None:
        """Record an error; only the first one of a place is kept."""
        if path not in self._seen:
            self._seen.add(path)
            line = self.source.line(path)
            error = ConfigError(file=self.file, path=show(path), line=line, found=found, expected=expected)
            self.problems.append((line, error))

    def warn(self, path: Path, sentence: str) -> None:
        """Record a warning: something that works, but probably not as intended."""
        self.warnings.append(f"{self.file}: {self.place(path)}: {sentence}")

    def place(self, path: Path) -> str:
        """The place for people: path and line."""
        line = f"line {self.source.line(path)}"
        return f"{show(path)} ({line})" if path else line

    def written(self, path: Path, value: Any) -> str:
        """The value as written in the file: the name of a variable, never its value."""
        node = self.source
        for key in path:
            child = node.items.get(key)
            if child is None:
                return describe(value)
            node = child
        return describe(node.value if has_variable(node.value) else value)

    def errors(self) -> tuple[ConfigError, ...]:
        """The errors, in the order of the file."""
        return tuple(error for _, error in sorted(self.problems, key=lambda entry: entry[0]))


def describe(value: Any) -> str:
    """A short description of a JSON value, without passwords."""
    if isinstance(value, str):
        text = mask_password(value) if "://" in value else value
        return f"'{text if len(text) <= 80 else text[:77] + '…'}'"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {json.dumps(value)}"
    if isinstance(value, Mapping):
        return "an object"
    return "a list"


def validate(document: Any, findings: BackendFindings) -> None:
    """Record all errors of the expanded `document` in `findings`."""
    for error in configuration.check_shape(document):
        _report(error, document, findings)
    if isinstance(document, Mapping):
        _check_users(document, findings)
        _check_instance(document, findings)


def channelless(document: BackendDocument, changes: Iterable[Change]) -> tuple[ConfigError, ...]:
    """The errors of `changes` that give output feeds or sources channels that their users won't have."""
    findings = BackendFindings(document.file, document.source)
    for change in changes:
        kind = "outputs" if isinstance(change.value, OutputConfig) else "sources"
        path = ("users", change.user, kind, change.uid, "channel")
        written = findings.written(path, change.value.channel)
        findings.wrong(path, f"{written}, which isn't a channel of '{change.user}'", "the uid of one of their channels")
    return findings.errors()


def alone_channelless(document: BackendDocument) -> tuple[ConfigError, ...]:
    """The same errors of a document whose users have no channels besides those that it declares."""
    return channelless(document, merge(Backend(), document.backend, Current(), edited_at=0.0).channelless)


# --- valid values -----------------------------------------------------------------------------------------------------

_EXPECTED = {
    "dataclass_type": "an object",
    "mapping_type": "an object",
    "dict_type": "an object",
    "tuple_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than_equal": "a number of at most {le:g}",
    "literal_error": "one of {expected}",
    "form": "{expected}",
}
"""The expected values, by pydantic's type of error."""


def expected_by(error: Mapping[str, Any]) -> str:
    """What an error of `shape.check_shape` says that it expected."""
    values = dict(error.get("ctx", {}))
    if error["type"] == "literal_error":
        values["expected"] = values["expected"].replace(" or ", ", ")
    return _EXPECTED.get(error["type"], str(error["msg"])).format_map(values)


_HIDDEN = "a value that isn't shown"


def _report(error: Mapping[str, Any], document: Any, findings: BackendFindings) -> None:
    path, kind, values = error["loc"], error["type"], dict(error.get("ctx", {}))
    if kind == "unexpected_keyword_argument":
        _unknown_key(path, findings)
        return
    if kind == "missing":
        expected = f"a uid, the channel's permanent name: {NAME}" if path[-1] == "uid" else URL
        findings.wrong(path, "nothing", expected)
        return
    if path[-1:] == ("[key]",):
        path = path[:-1]
        found = f"the key {describe(path[-1])}"
    else:
        if path[-1:] == ("url",) and isinstance(_at(document, path[:-1]), str):
            path = path[:-1]  # text that stands for the object
        found = _HIDDEN if path[_SIGN_IN : _SIGN_IN + 1] == ("sign_in",) else findings.written(path, error["input"])
    expected = expected_by(error)
    if kind == "dataclass_type" and issubclass(kind_at(path), PublicFeedConfig):
        expected = "text or an object"
    problem = values.get("problem")
    findings.wrong(path, f"{found}, {problem}" if problem else found, expected)


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _unknown_key(path: Path, findings: BackendFindings) -> None:
    key = str(path[-1])
    if re.search(NOTES, key) or path == ("$schema",):
        return
    kind = kind_at(path[:-1])
    known = [one.name for one in fields(kind)]
    near = _near(key, known)
    if near or issubclass(kind, PublicFeedConfig | SignInConfig):
        findings.wrong(path, f"the unknown key '{key}'", f"one of {', '.join(known)}{near}")
    else:
        findings.warn(path, "unknown key, which has no effect (for notes, use names that begin with 'x-')")


def _near(text: str, known: Sequence[str]) -> str:
    """A suggestion of the closest of `known`; empty if none is close."""
    near = get_close_matches(text.lower(), known, n=1, cutoff=_CLOSE)
    near = near or [word for word in known if sorted(word) == sorted(text.lower())]
    return f"; did you mean '{near[0]}'?" if near else ""


# --- rules that a schema can't express --------------------------------------------------------------------------------


def _check_users(document: Mapping[str, Any], findings: BackendFindings) -> None:
    sites: dict[str, str] = {}
    for name, user in _members(document.get("users")):
        path: Path = ("users", name)
        endpoint = user.get("token_endpoint")
        if endpoint and not user.get("me"):
            findings.warn((*path, "token_endpoint"), ENDPOINT_UNUSED)
        if isinstance(endpoint, str) and is_usable(endpoint) and parts_of(endpoint).scheme == "http":
            findings.warn((*path, "token_endpoint"), ENDPOINT_IN_CLEAR)
        site = user.get("me")
        if isinstance(site, str) and site:
            first = sites.setdefault(normalise_person(site), name)
            if first != name:
                written = findings.written((*path, "me"), site)
                theirs = findings.written(("users", first, "me"), document["users"][first]["me"])
                findings.wrong(
                    (*path, "me"),
                    f"{written}, the same person as user '{first}' with {theirs}",
                    "a different site for each user, because a site can sign in to only one account",
                )
        _check_filters(user.get("filters"), (*path, "filters"), findings)
        for output, settings in _members(user.get("outputs")):
            _check_filters(settings.get("filters"), (*path, "outputs", output, "filters"), findings)
        _check_channels(user.get("channels"), (*path, "channels"), findings)


def _check_channels(channels: Any, path: Path, findings: BackendFindings) -> None:
    uids: dict[str, int] = {}
    names: dict[str, int] = {}
    for index, channel in _elements(channels):
        here: Path = (*path, index)
        uid, name = channel.get("uid"), channel.get("name", channel.get("uid"))
        if uid in UNUSABLE_UIDS:
            findings.wrong((*here, "uid"), f"the reserved uid '{uid}'", "another uid: the protocol reserves this one")
        if isinstance(uid, str) and uids.setdefault(uid, index) != index:
            first = show((*path, uids[uid], "uid"))
            findings.wrong((*here, "uid"), f"the uid '{uid}' again", f"a unique uid: {first} already has this one")
        if isinstance(name, str) and names.setdefault(name, index) != index:
            findings.warn((*here, "name"), f"a second channel with the name '{name}'")
        _check_feeds(channel.get("feeds"), (*here, "feeds"), findings)
        settings = channel.get("settings")
        if isinstance(settings, Mapping):
            _check_filters(settings.get("filters"), (*here, "settings", "filters"), findings)


def _check_feeds(feeds: Any, path: Path, findings: BackendFindings) -> None:
    seen: dict[str, int] = {}
    for index, feed in enumerate(feeds if isinstance(feeds, list) else ()):
        here: Path = (*path, index)
        url = feed.get("url") if isinstance(feed, Mapping) else feed
        if isinstance(feed, Mapping):
            _check_filters(feed.get("filter"), (*here, "filter"), findings)
            if isinstance(feed.get("sign_in"), Mapping):
                _check_sign_in(feed["sign_in"], url, (*here, "sign_in"), findings)
            here = (*here, "url")
        if not isinstance(url, str):
            continue
        if seen.setdefault(canonical_feed_url(url), index) != index:
            first = show((*path, seen[canonical_feed_url(url)]))
            findings.wrong(
                here, f"{findings.written(here, url)} again", f"each feed only once per channel: {first} is the same"
            )


def _check_sign_in(part: Mapping[str, Any], url: Any, path: Path, findings: BackendFindings) -> None:
    said, headers = [part.get(name, "") for name in ("user_name", "password")], part.get("headers", [])
    if not isinstance(headers, list) or not all(isinstance(text, str) for text in (*said, *headers)):
        return  # which the form says
    if not any((*said, *headers)):
        findings.wrong(path, "no credentials", "a user_name and a password, or headers")
    elif isinstance(url, str) and without_credentials(url) != url:
        findings.wrong(path, "credentials besides those in the URL", "a URL without a user and a password")
    each = [(*said, "")] if any(said) else []
    each += [("", "", header) for header in headers]
    if all(_can_be_sent(*one) for one in each) and not _can_be_sent(*said, "\n".join(headers)):
        all_of = f"each header once, and at most {MOST_HEADERS} with {MOST_BYTES} bytes"
        findings.wrong(path, "credentials that can't be sent together", all_of)


def _can_be_sent(*given: str) -> bool:
    try:
        return bool(sign_in_headers(*given))
    except InvalidRequest:
        return False


def _check_filters(filters: Any, path: Path, findings: BackendFindings) -> None:
    for key in ("include_types", "exclude_types") if isinstance(filters, Mapping) else ():
        kinds = filters.get(key)
        kinds = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
        nothing_left = key == "include_types" and not any(kind.lower() in POST_TYPES for kind in kinds)
        for index, kind in enumerate(kinds):
            if kind.lower() in POST_TYPES:
                continue
            known, near = ", ".join(POST_TYPES), _near(kind, POST_TYPES)
            if near or nothing_left:
                findings.wrong((*path, key, index), f"the type {describe(kind)}", f"one of {known}{near}")
            else:
                findings.warn((*path, key, index), f"unknown post type {describe(kind)}; types: {known}")


def _check_instance(document: Mapping[str, Any], findings: BackendFindings) -> None:
    settings = document.get("settings")
    if not isinstance(settings, Mapping):
        return
    _check_feeds(settings.get("public_feeds"), ("settings", "public_feeds"), findings)
    _check_registration(settings.get("registration"), ("settings", "registration"), findings)
    polling = settings.get("polling")
    if isinstance(polling, Mapping):
        low, high = polling.get("min_interval", 300), polling.get("max_interval", 86_400)
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            key = "min_interval" if "min_interval" in polling else "max_interval"
            findings.wrong(
                ("settings", "polling", key),
                describe(polling[key]),
                f"min_interval ({low}) to be at most max_interval ({high})",
            )


def _check_registration(part: Any, path: Path, findings: BackendFindings) -> None:
    if not isinstance(part, Mapping):
        return
    if part.get("open") == "domains" and not part.get("domains"):
        findings.wrong((*path, "domains"), "none" if "domains" not in part else "an empty list", "at least one domain")
    if part.get("domains") and part.get("open", "nobody") != "domains":
        findings.warn((*path, "domains"), "has no effect unless 'open' is 'domains'")


def _members(part: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, value in part.items() if isinstance(part, Mapping) else ():
        if isinstance(value, Mapping):
            yield key, value


def _elements(part: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, value in enumerate(part if isinstance(part, list) else ()):
        if isinstance(value, Mapping):
            yield index, value
