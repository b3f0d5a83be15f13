"""What somebody meant who mistyped a line."""

from __future__ import annotations

import pytest

from microsub.identity.page_check.page_findings import RELS
from microsub.identity.page_check.typos import last_name, mended_address, misnamed, near_name, near_own_line
from microsub.identity.protocol.rels import Written

AT = "https://alice.example/"


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("htps://a.example/token", "https://a.example/token"),
        ("https:/a.example/token", "https://a.example/token"),
        ("https//a.example/token", "https://a.example/token"),
        ("http:\\\\a.example\\token", "http://a.example/token"),
        ("https://a.example/ token", "https://a.example/token"),
        ("https://ann:secret@a.example/token", "https://a.example/token"),
        ("https://a.example/token#top", "https://a.example/token"),
        ("a.example/token", "https://a.example/token"),
        ("https://a.example/token", None),
        ("javascript:a.example/token", None),
        ("mailto:ann@a.example/token", None),
        ("/token", None),
        ("token.php", None),
        ("v1.0/token", None),
        ("", None),
    ],
)
def test_an_address(target: str, meant: str | None) -> None:
    """By its host and path, with a scheme that is nearly or not there; never another way to run something."""
    assert mended_address(target) == meant


@pytest.mark.parametrize(
    ("rel", "meant"),
    [
        ("mircosub", "microsub"),
        ("token-endpoint", "token_endpoint"),
        ("authorisation_endpoint", "authorization_endpoint"),
        ("indieauth_metadata", "indieauth-metadata"),
        ("micropub", None),
        ("ticket_endpoint", None),
        ("stylesheet", None),
        ("me", None),
        ("x" * 5000, None),
    ],
)
def test_a_relation(rel: str, meant: str | None) -> None:
    """One that is nearly another, unless it is one itself."""
    found = misnamed([Written("page", rel, "/x", AT)], RELS, ())
    assert list(found) == ([] if meant is None else [meant])


def test_what_the_page_has_isnt_looked_for() -> None:
    """Nor is an address taken that can't be one."""
    assert not misnamed([Written("page", "mircosub", "/x", AT)], RELS, {"microsub"})
    assert not misnamed([Written("page", "mircosub", "javascript:x", AT)], RELS, ())


def test_a_line_of_this_server() -> None:
    """Another server isn't a typo of it, though the paths are the same everywhere."""
    base = "https://reader.example"
    near = near_own_line("token_endpoint", "https://raeder.example/token", base)
    assert near is not None
    assert near.href == f"{base}/token"
    assert near_own_line("token_endpoint", "https://provider.example/token", base) is None
    assert near_own_line("token_endpoint", f"{base}/token", base) is None
    assert near_own_line("token_endpoint", "https://raeder.example/token", None) is None
    assert last_name("https://raeder.example/microsub/alice/") == "alice"
    assert last_name("https://raeder.example/microsub") is None


def test_a_page_that_is_made_to_be_slow_is_not() -> None:
    """Thousands of relations that are nearly ours, addresses and names without end."""
    links = [Written("page", " ".join(f"microsu{n}x{m}" for m in range(50)), "/x", AT) for n in range(500)]
    assert not misnamed(links, RELS, ())
    for hostile in ("." * 10**6, "a." * 10**6, "a@" * 10**6, "https:" + "/" * 10**6, "x" * 10**6 + ".example/"):
        mended_address(hostile)
        near_own_line("token_endpoint", hostile, "https://reader.example")
        near_name(hostile, ["alice"] * 1000)
