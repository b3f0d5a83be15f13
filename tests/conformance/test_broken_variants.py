"""The suite catches servers that are broken on purpose, and the right requirement fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub_conformance.checks import CHAPTERS, pick
from microsub_conformance.runner import run
from tests.conformance.reference_server import serving
from tests.conformance.variants import VARIANTS, Variant


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_broken_variant_is_caught(variant: Variant) -> None:
    """Each broken variant fails the requirements for the behaviour that is broken."""
    with serving(variant.server()) as target:
        results = run(replace(target, patience=5), pick(variant.caught_by))
    verdicts = {result.requirement.id: result.verdict for result in results}
    assert verdicts == dict.fromkeys(variant.caught_by, "fail")


def test_each_chapter_catches_a_broken_variant() -> None:
    """Nearly every chapter has a broken variant; the exceptions are listed here."""
    caught = {identifier.partition(".")[0] for variant in VARIANTS for identifier in variant.caught_by}
    assert {chapter.name for chapter in CHAPTERS} - caught == {"formats", "search"}
