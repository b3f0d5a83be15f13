"""The suite catches the real server if one of its functions is replaced by a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from microsub_conformance.checks import pick
from microsub_conformance.runner import run
from tests.conformance.broken_launcher import VARIANTS
from tests.conformance.real_server import real_server


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_server_is_caught(tmp_path: Path, name: str) -> None:
    """Lost ties, read or removed items that come back, pages of another user, wrong counts and wrong headers are
    caught.
    """
    _, caught_by = VARIANTS[name]
    with real_server(tmp_path, "tests.conformance.broken_launcher", (name,)) as target:
        results = run(target, pick(caught_by))
    assert {result.requirement.id: result.verdict for result in results} == dict.fromkeys(caught_by, "fail")
