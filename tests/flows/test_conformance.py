"""The project's API tests: the conformance suite of both APIs against a real server process, a test per requirement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from microsub_conformance.checks import NATIVE_REQUIREMENTS, REQUIREMENTS
from microsub_conformance.report import as_text
from microsub_conformance.requirement import Requirement
from microsub_conformance.runner import run
from microsub_conformance.verdict import Result
from tests.conformance.real_server import real_server


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Result]]:
    """The results of one run against one server."""
    with real_server(tmp_path_factory.mktemp("conformance")) as (target, native):
        found = [*run(target, REQUIREMENTS), *run(native, NATIVE_REQUIREMENTS)]
        yield {result.requirement.id: result for result in found}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("requirement", [*REQUIREMENTS, *NATIVE_REQUIREMENTS], ids=lambda requirement: requirement.id)
def test_the_server_conforms(results: Mapping[str, Result], requirement: Requirement) -> None:
    """The server meets each requirement of the suite; nothing is skipped."""
    result = results[requirement.id]
    assert result.verdict == "pass", as_text("the server", [result])
