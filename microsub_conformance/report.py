"""Reports: text for people, JSON for programs, JUnit XML for continuous integration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from microsub_conformance.exchange import Exchange
from microsub_conformance.requirement import Requirement
from microsub_conformance.verdict import Result, Verdict, shorten

GROUPS = {
    "spec": "From the Microsub spec",
    "client": "From reader apps, which rely on it",
    "design": "From the design of microsub-server, if spec and clients are silent",
}
VERDICTS: tuple[Verdict, ...] = ("pass", "fail", "error", "skipped")
KEPT = 12
"""How many exchanges of a requirement a report has: the last ones, which led to the verdict."""


def exit_code(results: Sequence[Result], *, spec_only: bool = False) -> int:
    """0 if nothing failed, otherwise 1; with `spec_only`, only requirements of the spec count.

    Skipped requirements don't count; those that can't be judged do.
    """
    counted = [result for result in results if not spec_only or result.requirement.group == "spec"]
    return 1 if any(result.verdict in {"fail", "error"} for result in counted) else 0


def counts(results: Sequence[Result]) -> dict[str, int]:
    """The number of results by verdict."""
    return {verdict: sum(result.verdict == verdict for result in results) for verdict in VERDICTS}


def failing_apps(results: Sequence[Result]) -> dict[str, list[str]]:
    """The apps that will fail with this server, each with the ids of what it relies on and doesn't get."""
    found: dict[str, list[str]] = {}
    for result in results:
        if result.verdict == "fail" and result.requirement.level == "must":
            for app in result.requirement.apps:
                found.setdefault(app, []).append(result.requirement.id)
    return dict(sorted(found.items()))


def line(result: Result) -> str:
    """One result on one line."""
    should = " (should)" if result.requirement.level == "should" else ""
    reason = f" — {shorten(result.reason, 100)}" if result.verdict == "skipped" else ""
    return f"{result.verdict:<8}{result.requirement.id:<32}{result.requirement.title}{should}{reason}"


def as_text(endpoint: str, results: Sequence[Result]) -> str:
    """A summary by source, every verdict on a line, and the exchanges of failed requirements."""
    parts = [f"Conformance of {endpoint}", ""]
    for group, title in GROUPS.items():
        chosen = [result for result in results if result.requirement.group == group]
        if chosen:
            parts += [f"{title}: {_tally(chosen)}", *(f"  {line(result)}" for result in chosen), ""]
    for result in results:
        if result.verdict in {"fail", "error"}:
            parts += [*_details(result), ""]
    failing = failing_apps(results)
    parts += [f"{app} will fail: {', '.join(ids)}" for app, ids in failing.items()]
    parts.append(f"Total: {_tally(results)}")
    return "\n".join(parts) + "\n"


def as_json(endpoint: str, results: Sequence[Result]) -> str:
    """The whole report as one JSON object."""
    report = {
        "endpoint": endpoint,
        "summary": counts(results),
        "failing apps": failing_apps(results),
        "requirements": [_result(result) for result in results],
    }
    return json.dumps(report, ensure_ascii=False, indent=2) + "\n"


def as_junit(endpoint: str, results: Sequence[Result]) -> str:
    """JUnit XML: one suite for each source, one case for each requirement."""
    root = Element("testsuites", name=f"Conformance of {_clean(endpoint)}")
    for group, title in GROUPS.items():
        chosen = [result for result in results if result.requirement.group == group]
        if chosen:
            _suite(root, title, chosen)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def as_list(requirements: Sequence[Requirement]) -> str:
    """The requirements themselves, by source."""
    parts: list[str] = []
    for group, title in GROUPS.items():
        chosen = [requirement for requirement in requirements if requirement.group == group]
        if chosen:
            parts += [f"{title}:", *(f"  {_described(requirement)}" for requirement in chosen), ""]
    return "\n".join(parts)


def _described(requirement: Requirement) -> str:
    of = f" [{requirement.source.partition(':')[2]}]" if requirement.group == "client" else ""
    should = " (should)" if requirement.level == "should" else ""
    return f"{requirement.id:<32}{requirement.title}{of}{should}"


def _tally(results: Sequence[Result]) -> str:
    tally = counts(results)
    words = {"pass": "passed", "fail": "failed", "error": "could not be judged", "skipped": "skipped"}
    return ", ".join(
        f"{tally[verdict]} {words[verdict]}" for verdict in VERDICTS if tally[verdict] or verdict == "pass"
    )


def _details(result: Result) -> list[str]:
    requirement = result.requirement
    lines = [
        f"{result.verdict.upper()} {requirement.id}: {requirement.title}",
        f"  source    {requirement.source}, {requirement.reference} ({requirement.level})",
    ]
    if result.verdict == "fail":
        lines += [f"  expected  {result.expected}", f"  found     {result.found}"]
    else:
        lines.append(f"  reason    {result.reason}")
    for exchange in result.exchanges[-2:]:
        lines += [f"  {part}" for part in _spoken(exchange)]
    return lines


def _spoken(exchange: Exchange) -> list[str]:
    lines = [f"request   {exchange.method} {exchange.url}"]
    if exchange.request_body:
        lines.append(f"          {shorten(exchange.request_body, 400)}")
    kind = exchange.reply_headers.get("content-type", "")
    lines.append(f"reply     {exchange.status} {kind} {shorten(exchange.reply_body, 400)}")
    return lines


def _result(result: Result) -> dict[str, Any]:
    requirement = result.requirement
    return {
        "id": requirement.id,
        "title": requirement.title,
        "source": requirement.source,
        "reference": requirement.reference,
        "level": requirement.level,
        "verdict": result.verdict,
        "seconds": round(result.seconds, 3),
        "reason": result.reason,
        "expected": result.expected or requirement.title,
        "found": result.found,
        "exchanges": [asdict(exchange) for exchange in result.exchanges[-KEPT:]],
    }


def _suite(root: Element, title: str, results: Sequence[Result]) -> None:
    tally = counts(results)
    suite = SubElement(
        root,
        "testsuite",
        name=title,
        tests=str(len(results)),
        failures=str(tally["fail"]),
        errors=str(tally["error"]),
        skipped=str(tally["skipped"]),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        requirement = result.requirement
        chapter, _, slug = requirement.id.partition(".")
        case = SubElement(suite, "testcase", classname=chapter, name=slug, time=f"{result.seconds:.3f}")
        if result.verdict == "pass":
            continue
        tag = {"fail": "failure", "error": "error", "skipped": "skipped"}[result.verdict]
        SubElement(case, tag, message=_clean(shorten(result.reason))).text = _clean("\n".join(_details(result)))


def _clean(text: str) -> str:
    """`text` without the control characters that XML doesn't allow."""
    return "".join(character for character in text if character in "\t\n" or ord(character) >= 0x20)
