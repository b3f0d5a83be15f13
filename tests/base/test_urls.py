"""Hosts and URLs have one form for each purpose, wherever they are written, stored, compared or requested."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from urllib.parse import quote

import orjson
import pytest

from microsub.base.identifiers import canonical_me, identifier, site_of_me
from microsub.base.urls import (
    ascii_host,
    asked_host,
    canonical_feed_url,
    domain,
    host_of,
    is_usable,
    mask_credentials,
    normalise_person,
    normalise_profile,
    normalise_url,
    redacted_text,
    safe_url,
)
from microsub.configuration.document import examine
from microsub.fetch.targets import follow, target_of
from microsub.fetch.values import HopError
from microsub.identity.passkeys import relying_party
from microsub.web.headers import origin

HOSTS = {
    "straße.example": "xn--strae-oqa.example",
    "STRAẞE.example": "xn--strae-oqa.example",
    "XN--STRAE-OQA.example": "xn--strae-oqa.example",
    "STRASSE.example": "strasse.example",
    "strasse.example.": "strasse.example",
    "bücher.example:443": "xn--bcher-kva.example",
    "☃.example": "xn--n3h.example",
    "A.Example": "a.example",
    "[2001:DB8:0:0::1]": "2001:db8::1",
    "[2001:db8::1]:443": "2001:db8::1",
}


def test_a_joiner_that_changes_nothing_is_kept() -> None:
    """Browsers refuse such a host; without the joiner it would be another host."""
    assert ascii_host("a\u200db.example") == "a\u200db.example"


@pytest.mark.parametrize(("written", "host"), HOSTS.items())
def test_a_host_has_one_form(written: str, host: str) -> None:
    """The same in backend.json, in the store, in requests and in identities."""
    url, place = f"https://{written}/", f"[{host}]" if ":" in host else host
    assert ascii_host(written.removesuffix(":443").strip("[]")) == host
    assert host_of(url) == target_of(url).host == host
    assert canonical_feed_url(url) == normalise_url(url) == target_of(url).url == f"https://{place}/"
    assert normalise_profile(url) == normalise_person(written) == f"https://{place}/"
    assert identifier(url).url == f"https://{place}/"
    assert origin(url) == f"https://{place}"
    if ":" not in host:
        assert domain(written.removesuffix(":443")) == host
        assert site_of_me(canonical_me(url, private=True)) == host
        assert host_of(relying_party(url) or "") == host


def test_file_and_store_have_the_same_canonical_urls() -> None:
    """`straße` and its punycode are one host, and `strasse` is another."""
    hosts = ("straße.example", "xn--strae-oqa.example", "strasse.example")
    feeds = [f"https://{host}/feed" for host in hosts]
    for kept, same in ((feeds, True), (feeds[::2], False)):
        document = {"version": 1, "users": {"ann": {"channels": [{"name": "A", "feeds": kept}]}}}
        report = examine(orjson.dumps(document), "backend.json", {})
        assert any("each feed only once" in str(problem) for problem in report.problems) is same
        assert (len({canonical_feed_url(feed) for feed in kept}) < len(kept)) is same


@pytest.mark.parametrize(
    "url",
    ["https://[", "mailto:a@b", "x", "", "https:///x", "https://a.example:x/", "https://a b.example/", "ftp://a/"],
)
def test_unusable_urls_compare_unchanged(url: str) -> None:
    """A comparison never fails."""
    assert canonical_feed_url(url) == url
    assert not is_usable(url)


@pytest.mark.parametrize("text", ["com", "localhost", "127.0.0.1", "a..example", "a.example..", "*.a.example", "a/b.c"])
def test_invalid_domains_are_refused(text: str) -> None:
    """A domain that covers all its subdomains has at least two labels."""
    assert domain(text) is None


LONG = 500_000
CHINESE = "".join(map(chr, range(0x4E00, 0x9C20)))
HOSTILE = {
    "a host in Chinese": "http://" + CHINESE * (LONG // 20_000) + "/",
    "labels in Chinese": "http://" + ".".join(CHINESE) * (LONG // 40_000) + ".a/",
    "accents in no order": "http://a" + "\u0301\u0316" * (LONG // 2) + ".example/",
    "campaigns in a fragment": "http://a.example/#" + "xutm_" * (LONG // 5),
}


@pytest.mark.parametrize("url", [pytest.param(url, id=name) for name, url in HOSTILE.items()])
def test_no_address_takes_long(url: str) -> None:
    """Each of these once blocked a process for minutes: as a parameter, in a document, in a redirect."""
    started = time.process_time()
    for text in (url, url[:8000]):
        for form in (
            canonical_feed_url,
            normalise_url,
            normalise_person,
            host_of,
            domain,
            mask_credentials,
            redacted_text,
        ):
            form(text)
        is_usable(text)
        safe_url(text, url)
        with pytest.raises(HopError) if "#" not in text or text is url else nullcontext():
            target_of(text)
        with suppress(HopError):
            follow(target_of("http://a.example/"), text.encode().decode("latin-1"))
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    "written", ["127.0.0.1", "127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.01", "000000000000177.1", "0X7F000001."]
)
def test_an_address_in_numbers_is_one_host(written: str) -> None:
    """All its spellings share one rate limit."""
    assert asked_host(written) == host_of(f"https://{written}/") == "127.0.0.1"


@pytest.mark.parametrize("written", ["::ffff:127.0.0.1", "0:0:0:0:0:FFFF:7f00:0001"])
def test_an_address_of_ipv4_within_ipv6_is_the_same_host(written: str) -> None:
    """The connection goes to the same server."""
    assert asked_host(written) == host_of(f"https://[{written}]/") == "127.0.0.1"


@pytest.mark.parametrize(
    ("written", "shown"),
    [("::ffff:1.2.3.4", "::ffff:102:304"), ("::FFFF:0:1", "::ffff:0:1"), ("64:ff9b::1.2.3.4", "64:ff9b::102:304")],
)
def test_ipv4_within_ipv6_is_written_as_browsers_do(written: str, shown: str) -> None:
    """Python has another form from 3.13 on, by which a person would be somebody else."""
    assert ascii_host(written) == shown


@pytest.mark.parametrize("host", ["127.0.0.256", "1.2.3.4.5", "08.1", "0x", "4294967296", "9to5.example", "1.example"])
def test_other_hosts_stay_unchanged(host: str) -> None:
    assert host_of(f"https://{host}/") == host


def test_many_addresses_with_long_hosts_take_no_long_time() -> None:
    """A feed may contain thousands of them, each within the maximum length of a URL."""
    started = time.process_time()
    for at in range(300):
        url = "http://a" + "\u0315\u0300" * 2000 + f"/{at}?token=secret"
        assert normalise_url(url) == url
        assert mask_credentials(url) == "***"
    assert time.process_time() - started < 1


def test_too_long_urls_are_not_shown() -> None:
    """Nobody could see where its password ends."""
    assert mask_credentials(f"https://ann:{'x' * LONG}@a.example/") == "***"
    assert mask_credentials(f"https://ann:pass/{'x' * LONG}@a.example/") == "***"
    assert mask_credentials(f"https://a.example/{'x' * LONG}?token=secret") == "https://a.example/***"


def test_a_long_host_in_unicode_is_brought_into_its_form_once() -> None:
    """A user may follow thousands of feeds, and each request compares all of them."""
    hosts = [f"ü{number}{'.bücher' * 20}.example" for number in range(1000)]
    first = [canonical_feed_url(f"https://{host}/") for host in hosts]
    started = time.process_time()
    for _ in range(10):
        assert [canonical_feed_url(f"https://{host}/") for host in hosts] == first
    assert time.process_time() - started < 2


@pytest.mark.parametrize("mark", ["\x1b", "\x9b", "\u061c", "\u200e", "\u200f", "\u202e", "\u2066"])
def test_controls_in_an_address_are_escaped(mark: str) -> None:
    """Otherwise a terminal might obey them, and people might read another URL than the real one."""
    assert safe_url(f"/a{mark}b", "https://a.example/") == f"https://a.example/a{quote(mark)}b"
