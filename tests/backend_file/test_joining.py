"""Domains in the rules for registration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microsub.base.urls import domain, within
from microsub.configuration.model import Quotas


@pytest.mark.parametrize(
    ("written", "host", "is_within"),
    [
        ("example.org", "example.org", True),
        ("example.org", "ann.example.org", True),
        ("Example.ORG.", "deep.ann.example.org", True),
        ("example.org", "notexample.org", False),
        ("example.org", "example.org.evil.example", False),
        ("example.org", "org", False),
        ("ann.example.org", "example.org", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("xn--bcher-kva.example", "ann.xn--bcher-kva.example", True),
        ("straße.example", "strasse.example", False),
    ],
)
def test_a_domain_includes_its_subdomains(written: str, host: str, is_within: bool) -> None:
    """The domain itself and its subdomains, by whole labels."""
    name = domain(written)
    assert name is not None
    assert within(host, name) is is_within


LABEL = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


@given(st.lists(LABEL, min_size=2, max_size=4), st.lists(LABEL, max_size=3), LABEL)
def test_a_longer_label_is_another_domain(base: list[str], below: list[str], stuck: str) -> None:
    """Only a dot separates a subdomain from its domain."""
    name = domain(".".join(base))
    assert name is not None
    assert within(".".join([*below, *base]), name)
    assert not within(".".join([*below, stuck + name]), name)


def test_quotas_of_one_level_go_over_those_above() -> None:
    """0 is a value: no limit."""
    assert Quotas(channels=0, feeds=1).over(Quotas(5, 5, 5)) == Quotas(0, 1, 5)
