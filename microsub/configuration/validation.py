"""What is wrong with a backend.json: the schema's findings and our own, each as a precise ConfigError.

JSON Schema (draft 2020-12, `backend.schema.json`) says what editors can check; duplicates, reserved names, URLs and
regular expressions are checked here. A key that looks like a misspelt one is an error, because what it was meant to
say would be lost in silence; any other unknown key is a warning, and stays in the file.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from microsub.configuration.joining import comparable_person, domain
from microsub.configuration.json_text import JsonText, Path, show
from microsub.configuration.model import POST_TYPES
from microsub.configuration.variables import has_variable
from microsub.errors import ConfigError
from microsub.kit.hosts import comparable, usable
from microsub.kit.identifiers import PROFILE, unfit_profile
from microsub.model.patterns import PatternError, compiled
from microsub.settings import mask_password

UNUSABLE_UIDS = ("global", "saved")
"""Names that the protocol uses for something else; `notifications` may be declared, to give it feeds and settings."""

ENDPOINT_UNUSED = "has no effect without 'me': whose tokens are to be accepted isn't said"

ENDPOINT_IN_CLEAR = (
    "tokens go there by https alone, except to networks in MICROSUB_ALLOW_PRIVATE_NETWORKS; nobody gets in by any other"
)

MOST_OF_RULE = 2048
"""Characters of a muted or blocked URL, as many as apps may send."""

_URL = "an http or https URL, such as https://blog.example/feed.xml"
_CLOSE = 0.75


def schema() -> dict[str, Any]:
    """The JSON Schema of backend.json, as shipped with the package."""
    text = files("microsub.configuration").joinpath("backend.schema.json").read_text(encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


@functools.cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


@dataclass
class Findings:
    """What was found, in the order of the file. `source` tells lines and the text as written, before expansion."""

    file: str
    source: JsonText
    problems: list[tuple[int, ConfigError]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)

    def wrong(self, path: Path, found: str, expected: str) -> None:
        """Note an error; the first one of a place is enough."""
        if path not in self._seen:
            self._seen.add(path)
            line = self.source.line(path)
            error = ConfigError(file=self.file, path=show(path), line=line, found=found, expected=expected)
            self.problems.append((line, error))

    def warn(self, path: Path, sentence: str) -> None:
        """Note something that works, but hardly as meant."""
        self.warnings.append(f"{self.file}: {self.place(path)}: {sentence}")

    def place(self, path: Path) -> str:
        """The place as people find it."""
        line = f"line {self.source.line(path)}"
        return f"{show(path)} ({line})" if path else line

    def written(self, path: Path, value: Any) -> str:
        """The value as the file has it: a variable by its name, never by what it holds."""
        node = self.source.root
        for key in path:
            child = node.child(key)
            if child is None:
                return describe(value)
            node = child
        return describe(node.value if has_variable(node.value) else value)

    def errors(self) -> tuple[ConfigError, ...]:
        """The errors, in the order of the file."""
        return tuple(error for _, error in sorted(self.problems, key=lambda entry: entry[0]))


def describe(value: Any) -> str:
    """A JSON value in words, short, without passwords."""
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


def validate(document: Any, findings: Findings) -> None:
    """Note in `findings` all that is wrong with the expanded `document`."""
    for error in _validator().iter_errors(document):
        _report(error, findings)
    if isinstance(document, Mapping):
        _check_users(document, findings)
        _check_instance(document, findings)


# --- the schema's findings in our words --------------------------------------------------------------------------

_KINDS = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def _report(error: ValidationError, findings: Findings) -> None:
    path: Path = tuple(error.absolute_path)
    finding = _Finding(path, str(error.validator), error.validator_value, error.instance, error.schema)
    if finding.keyword == "additionalProperties":
        _unknown_keys(finding, findings)
    elif finding.keyword == "required":
        for name in finding.rule:
            if name not in finding.value:
                findings.wrong((*path, name), "nothing", _expected_required(name))
    elif "propertyNames" in error.absolute_schema_path:
        findings.wrong((*path, finding.value), f"the name {describe(finding.value)}", _expected(finding))
    else:
        findings.wrong(path, findings.written(path, finding.value), _expected(finding))


@dataclass(frozen=True, slots=True)
class _Finding:
    path: Path
    keyword: str
    rule: Any
    value: Any
    schema: Any


def _expected(finding: _Finding) -> str:
    rule = finding.rule
    match finding.keyword:
        case "type":
            return " or ".join(_KINDS[kind] for kind in ([rule] if isinstance(rule, str) else rule))
        case "enum":
            return "one of " + ", ".join(f"'{choice}'" for choice in rule)
        case "minimum":
            return f"a number not below {rule}"
        case "maximum":
            return f"a number not above {rule}"
        case "minLength":
            return "text that is not empty"
        case "maxLength":
            return f"at most {rule} characters"
        case "pattern":
            return str(finding.schema["patternErrorMessage"])
        case other:
            return f"what the schema says with '{other}'"


def _expected_required(name: str) -> str:
    if name == "uid":
        return "a uid, the channel's lasting name: 1 to 64 letters, digits, '_' or '-'"
    return _URL if name == "url" else f"'{name}'"


def _unknown_keys(finding: _Finding, findings: Findings) -> None:
    path = finding.path
    known = list(finding.schema.get("properties", {}))
    patterns = list(finding.schema.get("patternProperties", {}))
    for key in finding.value:
        if key in known or any(re.search(pattern, key) for pattern in patterns):
            continue
        near = _near(key, known)
        if near or finding.schema.get("strictKeys"):
            names = ", ".join(name for name in known if name != "$schema")
            findings.wrong((*path, key), f"the unknown key '{key}'", f"one of {names}{near}")
        else:
            findings.warn((*path, key), "an unknown key, which has no effect (names beginning with 'x-' are for notes)")


def _near(text: str, known: Sequence[str]) -> str:
    """The question whether one of `known` was meant, a transposition of letters included; empty where none is near."""
    near = get_close_matches(text.lower(), known, n=1, cutoff=_CLOSE)
    near = near or [word for word in known if sorted(word) == sorted(text.lower())]
    return f"; did you mean '{near[0]}'?" if near else ""


# --- what a schema can't say -------------------------------------------------------------------------------------


def _check_users(document: Mapping[str, Any], findings: Findings) -> None:
    sites: dict[str, str] = {}
    for name, user in _members(document.get("users")):
        path: Path = ("users", name)
        _check_profile(user.get("me"), (*path, "me"), findings)
        _check_token_endpoint(user.get("token_endpoint"), (*path, "token_endpoint"), findings)
        if user.get("token_endpoint") and not user.get("me"):
            findings.warn((*path, "token_endpoint"), ENDPOINT_UNUSED)
        site = user.get("me")
        if isinstance(site, str) and site:
            first = sites.setdefault(comparable_person(site), name)
            if first != name:
                written = findings.written((*path, "me"), site)
                theirs = findings.written(("users", first, "me"), document["users"][first]["me"])
                findings.wrong(
                    (*path, "me"),
                    f"{written}, the same person as user '{first}' with {theirs}",
                    "a site of their own for each user, since signing in with it leads to one account",
                )
        _check_rules(user, path, findings)
        _check_channels(user.get("channels"), (*path, "channels"), findings)


def _check_channels(channels: Any, path: Path, findings: Findings) -> None:
    uids: dict[str, int] = {}
    names: dict[str, int] = {}
    for index, channel in _elements(channels):
        here: Path = (*path, index)
        uid, name = channel.get("uid"), channel.get("name", channel.get("uid"))
        if uid in UNUSABLE_UIDS:
            findings.wrong(
                (*here, "uid"), f"the reserved uid '{uid}'", "another uid: the protocol uses this one itself"
            )
        if isinstance(uid, str) and uids.setdefault(uid, index) != index:
            first = show((*path, uids[uid], "uid"))
            findings.wrong((*here, "uid"), f"the uid '{uid}' again", f"a uid of its own: {first} has this one")
        if isinstance(name, str) and names.setdefault(name, index) != index:
            findings.warn((*here, "name"), f"a second channel with the name '{name}'")
        _check_feeds(channel.get("feeds"), (*here, "feeds"), findings)
        _check_rules(channel, here, findings)
        settings = channel.get("settings")
        if isinstance(settings, Mapping) and isinstance(settings.get("filters"), Mapping):
            _check_filters(settings["filters"], (*here, "settings", "filters"), findings)


def _check_feeds(feeds: Any, path: Path, findings: Findings) -> None:
    seen: dict[str, int] = {}
    for index, feed in enumerate(feeds if isinstance(feeds, list) else ()):
        here: Path = (*path, index)
        url = feed.get("url") if isinstance(feed, Mapping) else feed
        if isinstance(feed, Mapping):
            here = (*here, "url")
        if not isinstance(url, str):
            continue
        _check_url(url, here, findings)
        if seen.setdefault(comparable(url), index) != index:
            first = show((*path, seen[comparable(url)]))
            findings.wrong(
                here, f"{findings.written(here, url)} again", f"each feed once per channel: {first} is the same"
            )


def _check_rules(part: Mapping[str, Any], path: Path, findings: Findings) -> None:
    for key in ("mute", "block"):
        entries = part.get(key)
        for index, url in enumerate(entries if isinstance(entries, list) else ()):
            here = (*path, key, index)
            _check_url(url, here, findings)
            if isinstance(url, str) and len(url) > MOST_OF_RULE:
                findings.wrong(here, f"a URL of {len(url)} characters", f"at most {MOST_OF_RULE}")


def _check_filters(filters: Mapping[str, Any], path: Path, findings: Findings) -> None:
    for key in ("include_regex", "exclude_regex"):
        pattern = filters.get(key)
        if isinstance(pattern, str):
            try:
                compiled(pattern)
            except PatternError as error:
                expected = f"a regular expression as RE2 knows them; there is {error}"
                findings.wrong((*path, key), findings.written((*path, key), pattern), expected)
    for key in ("include_types", "exclude_types"):
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
                findings.warn((*path, key, index), f"no post is of the type {describe(kind)}; types: {known}")


def _check_instance(document: Mapping[str, Any], findings: Findings) -> None:
    settings = document.get("settings")
    if not isinstance(settings, Mapping):
        return
    _check_feeds(settings.get("public_feeds"), ("settings", "public_feeds"), findings)
    for url, _ in _members(settings.get("feeds")):
        if not usable(url):
            findings.wrong(("settings", "feeds", url), f"the key {describe(url)}", _URL)
    _check_registration(settings.get("registration"), ("settings", "registration"), findings)
    polling = settings.get("polling")
    if isinstance(polling, Mapping):
        low, high = polling.get("min_interval", 300), polling.get("max_interval", 86_400)
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            key = "min_interval" if "min_interval" in polling else "max_interval"
            findings.wrong(
                ("settings", "polling", key),
                describe(polling[key]),
                f"min_interval ({low}) not above max_interval ({high})",
            )


def _check_registration(part: Any, path: Path, findings: Findings) -> None:
    if not isinstance(part, Mapping):
        return
    for key, urls_too in (("domains", False), ("refuse", True)):
        entries = part.get(key)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if not isinstance(entry, str) or (urls_too and usable(entry)) or domain(entry):
                continue
            expected = "a domain of two parts or more, such as example.org; those below it count too"
            if urls_too:
                expected += ", or a profile URL"
            findings.wrong((*path, key, index), findings.written((*path, key, index), entry), expected)
    if part.get("open") == "domains" and not part.get("domains"):
        findings.wrong((*path, "domains"), "none" if "domains" not in part else "an empty list", "at least one domain")
    if part.get("domains") and part.get("open", "nobody") != "domains":
        findings.warn((*path, "domains"), "has no effect unless 'open' is 'domains'")


def _check_url(url: Any, path: Path, findings: Findings) -> None:
    if isinstance(url, str) and not usable(url):
        findings.wrong(path, findings.written(path, url), _URL)


def _check_profile(me: Any, path: Path, findings: Findings) -> None:
    if isinstance(me, str) and (problem := unfit_profile(me)):
        findings.wrong(path, f"{findings.written(path, me)}, {problem}", PROFILE)


def _check_token_endpoint(url: Any, path: Path, findings: Findings) -> None:
    _check_url(url, path, findings)
    if isinstance(url, str) and usable(url) and urlsplit(url).scheme == "http":
        findings.warn(path, ENDPOINT_IN_CLEAR)


def _members(part: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, value in part.items() if isinstance(part, Mapping) else ():
        if isinstance(value, Mapping):
            yield key, value


def _elements(part: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, value in enumerate(part if isinstance(part, list) else ()):
        if isinstance(value, Mapping):
            yield index, value
