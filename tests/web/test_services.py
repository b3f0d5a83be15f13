"""The services to which users send posts."""

from __future__ import annotations

import pytest

from microsub.base.errors import InvalidRequest
from microsub.web.services import (
    KNOWN,
    LONGEST,
    MOST,
    Service,
    chosen_service,
    services_in,
    stored_services,
    with_service,
)

POST = ("https://blog.example/a?b=1&c=2#d", "Tea & {url} – “now”")


@pytest.mark.parametrize(
    ("kind", "address", "name", "made"),
    [
        ("Wallabag", "https://bag.example/", "", ("Wallabag", "https://bag.example/bookmarklet?url={url}")),
        ("Wallabag", "bag.example", "My\u202e bag\n", ("My bag", "https://bag.example/bookmarklet?url={url}")),
        ("Linkding", " http://127.0.0.1:9090/links?x#y", "", ("Linkding", "http://127.0.0.1:9090/links/bookmarks/new?url={url}&title={title}")),
        ("Email", "", "", ("Email", "mailto:?subject={title}&body={url}")),
        ("", "https://other.example/add?u={url}", "", ("other.example", "https://other.example/add?u={url}")),
        ("Instapaper", "https://other.example/{url}", "", ("other.example", "https://other.example/{url}")),
        ("Email", "later@example.org", "", ("Email", "mailto:later@example.org?subject={title}&body={url}")),
        ("", "mailto:later@example.org?body={url}", "", ("Email", "mailto:later@example.org?body={url}")),
    ],
)  # fmt: skip
def test_a_service_is_made_of_a_name_and_an_address(kind: str, address: str, name: str, made: tuple[str, str]) -> None:
    assert chosen_service(kind, address, name) == made


@pytest.mark.parametrize(
    ("kind", "address", "said"),
    [
        ("", "", "{url}"),
        ("", "https://other.example/add", "https://other.example/add"),
        ("Nothing", "https://other.example/", "https://other.example/"),
        ("", "javascript:alert('{url}')", "javascript:"),
        ("", "javascript://x/%0aalert('{url}')", "javascript:"),
        ("", "data:text/html,{url}", "data:"),
        ("", "mailto:{url}?body=a", "mailto:"),
        ("", "mailto:?body={url}\r\nbcc", "mailto:"),
        ("", "//other.example/{url}", "//other.example"),
        ("", "https://{url}/", "https://{url}/"),
        ("", "https://{title}.example/{url}", "https://{title}.example"),
        ("", "https://other.example/\n{url}", "https://other.example"),
        ("", "https://other.example/{url}" + "x" * LONGEST, str(LONGEST)),
        ("Wallabag", "", "server"),
        ("Wallabag", "javascript://x", "javascript:"),
        ("Wallabag", "https://", "“https://”"),
        ("Wallabag", "https://ann:secret@bag.example", "is no address of a service"),
        ("", "https://ann:secret@bag.example/{url}", "is no address of a service"),
        ("", "https://bag.example/{url}{url}", "once"),
        ("", "https://gnp\u202e.example/{url}", "https://gnp"),
        ("", "https://bag.example/{url}?{title}{title}", "once"),
        ("Instapaper", "ann", "Instapaper needs no address; found “ann”"),
        ("Email", "a b@c", "mailto:a b@c"),
        ("Wallabag", "a b", "a b"),
    ],
)  # fmt: skip
def test_an_address_that_takes_no_post_is_refused_by_name(kind: str, address: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chosen_service(kind, address, "")
    assert said in refused.value.description


def test_the_page_for_a_post_has_its_address_and_title_encoded() -> None:
    link = Service("a", "https://a.example/?u={url}&t={title}").page_for(*POST)
    url = "https%3A%2F%2Fblog.example%2Fa%3Fb%3D1%26c%3D2%23d"
    assert link == f"https://a.example/?u={url}&t=Tea%20%26%20%7Burl%7D%20%E2%80%93%20%E2%80%9Cnow%E2%80%9D"


def test_a_second_server_of_a_kind_is_called_by_its_host() -> None:
    """The same one again, with a change of nothing, isn't."""
    there = [chosen_service("Mastodon", "a.example", "")]
    assert chosen_service("Mastodon", "b.example", "", there).name == "b.example"
    assert chosen_service("Mastodon", "a.example", "", there) == there[0]


def test_of_a_long_title_only_the_beginning_is_sent() -> None:
    """A page of posts with ten services would take megabytes."""
    made = Service("a", "https://a.example/?u={url}&t={title}").page_for("https://b.example/", "é" * 1000)
    assert made.endswith("&t=" + "%C3%A9" * 200)


def test_each_known_service_takes_the_address() -> None:
    for kind in KNOWN:
        made = chosen_service(kind, "https://own.example" if "{server}" in KNOWN[kind] else "", "")
        assert "https%3A%2F%2Fblog.example" in made.page_for(*POST)
        assert made.name == kind


def test_the_services_are_ten_with_different_names() -> None:
    there = [Service(str(number), "https://a.example/{url}") for number in range(MOST)]
    changed = Service("3", "https://b.example/{url}")
    now = with_service(there, changed)
    assert (now[3], len(now)) == (changed, MOST)
    assert list(services_in(stored_services(now))) == now
    with pytest.raises(InvalidRequest, match=str(MOST)):
        with_service(there, Service("new", "https://a.example/{url}"))
    assert services_in(stored_services([])) == ()


@pytest.mark.parametrize(
    "given",
    [
        "social.example",
        "@ann@social.example",
        "ann@social.example",
        "https://social.example/@ann",
        "social.example/@ann/1",
    ],
)
def test_a_profile_names_its_mastodon_server(given: str) -> None:
    assert chosen_service("Mastodon", given, "").address.startswith("https://social.example/share?")
