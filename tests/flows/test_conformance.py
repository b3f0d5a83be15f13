"""The project's API tests: the conformance suite of both APIs against a real server process."""

from __future__ import annotations

from pathlib import Path

import pytest

from microsub_conformance.checks import NATIVE_REQUIREMENTS, REQUIREMENTS
from microsub_conformance.report import as_text
from microsub_conformance.runner import run
from tests.conformance.real_server import real_server


@pytest.mark.timeout(900)
def test_the_server_conforms(tmp_path: Path) -> None:
    """The server meets each requirement of the suite; nothing is skipped."""
    with real_server(tmp_path) as (target, native):
        results = [*run(target, REQUIREMENTS), *run(native, NATIVE_REQUIREMENTS)]
    assert len(results) == len([*REQUIREMENTS, *NATIVE_REQUIREMENTS])
    failed = [result for result in results if result.verdict != "pass"]
    assert not failed, as_text("the server", failed) + _trouble(tmp_path)


def _trouble(folder: Path) -> str:
    """What the server logged besides its usual work."""
    lines = (folder / "server.log").read_text(errors="replace").splitlines()
    return "\n".join(line for line in lines if '"info"' not in line)[-20_000:]
