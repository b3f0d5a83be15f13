"""Documents and their parsed results: each `<case>.body` in `tests/data/indieauth/<kind>` has its `<case>.json`.

`served` describes the HTTP reply; then follows either `found` or the reason why it is `refused`. For a new case add a
new pair: `MICROSUB_WRITE_CASES=1 pytest tests/identity/protocol/test_cases.py` writes the expected side; read the
difference before you keep it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from microsub.base.errors import ParseError
from microsub.identity.protocol.clients import read_client
from microsub.identity.protocol.documents import read_check, read_code_answer, read_introspection, read_metadata
from microsub.identity.protocol.links import profile_links

DATA = Path(__file__).parents[2] / "data" / "indieauth"
CASES = sorted(DATA.glob("*/*.body"))
Served = dict[str, Any]


def page(body: bytes, served: Served) -> dict[str, Any]:
    parts = (body, served["url"], served["type"], served.get("link"))
    endpoints, me = profile_links(*parts)
    return {**endpoints, "me": list(me)}


READERS: dict[str, Callable[[bytes, Served], Any]] = {
    "pages": page,
    "metadata": lambda body, s: asdict(read_metadata(body, s["url"], private=s.get("private", False))),
    "introspection": lambda body, s: read_introspection(
        body, s["url"], now=s["now"], private=s.get("private", False)
    )._asdict(),
    "checks": lambda body, s: read_check(body, s["url"], s["type"], now=s["now"])._asdict(),
    "codes": lambda body, s: asdict(read_code_answer(body, s["url"], s["type"], now=s["now"])),
    "clients": lambda body, s: asdict(read_client(body, s["client_id"], s["url"], s["type"], s.get("link"))),
}


def plain(value: Any) -> Any:
    """A result as JSON: sets sorted, empty values left out."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if part not in (None, frozenset(), [], {})}
    return sorted(value) if isinstance(value, frozenset) else value


def result_of(path: Path, served: Served) -> dict[str, Any]:
    """The result, or the reason for the refusal."""
    try:
        return {"found": plain(READERS[path.parent.name](path.read_bytes(), served))}
    except ParseError as error:
        return {"refused": error.detail if error.url == served["url"] else f"{error}, expected another address"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_document_is_read_as_written_beside_it(path: Path) -> None:
    """Each result or refusal matches its file; a refusal says what was expected."""
    beside = path.with_suffix(".json")
    served = json.loads(beside.read_text())["served"]
    result = {"served": served, **result_of(path, served)}
    refused = result.get("refused", "expected")
    assert "expected" in refused
    assert refused.isprintable()
    if os.environ.get("MICROSUB_WRITE_CASES"):
        beside.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    assert result == json.loads(beside.read_text())


def test_every_expectation_has_its_document() -> None:
    """No expected file remains from a renamed or removed document."""
    assert {p.with_suffix("") for p in DATA.glob("*/*.json")} == {p.with_suffix("") for p in CASES}
