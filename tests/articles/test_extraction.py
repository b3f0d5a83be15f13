"""The article of a page, as parser processes read it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from microsub.articles import ARTICLE_IN
from microsub.base.errors import ParseError
from tests.support.parsing import PARSER

URL = "https://paper.example/2026/one"
TYPE = "text/html; charset=utf-8"
TEXT = "The harbour was quiet that morning, and nobody had seen the ferry since Tuesday, said the keeper. "
MENU = "".join(f'<li><a href="/s{number}">Section {number}</a></li>' for number in range(20))


def page(article: str, head: str = "") -> bytes:
    return (
        f"<!doctype html><html><head><title>One – The Paper</title>{head}</head><body><nav><ul>{MENU}</ul></nav>"
        f'<main><article class="post">{article}</article></main><footer><ul>{MENU}</ul></footer></body></html>'
    ).encode()


async def read(body: bytes, title: str = "One", article: str = "", without: str = "") -> str:
    return (await PARSER.run(ARTICLE_IN, URL, body, URL, TYPE, title, article, without)).html


async def test_markup_that_readers_need_is_kept_and_menus_are_not() -> None:
    html = await read(
        page(
            f"<h1>One</h1><p>{TEXT * 3}</p><h2>How it began</h2><p>{TEXT * 3}</p><blockquote><p>{TEXT}</p></blockquote>"
            f'<figure><img data-src="/boat.jpg" src="data:image/gif;base64,R0" alt="A boat"><figcaption>{TEXT}'
            f'</figcaption></figure><pre><code class="language-python">print(1)</code></pre><p>{TEXT * 3}'
            '<a href="../more">more</a></p>'
        )
    )
    assert "<h1>" not in html, "the post has its title already"
    for part in (
        "<h2",
        "<blockquote>",
        'src="https://paper.example/boat.jpg"',
        'class="language-python"',
        'href="https://paper.example/more"',
    ):
        assert part in html
    assert "Section 3" not in html


async def test_a_hostile_page_loses_scripts_and_styles() -> None:
    bad = (
        "<script>alert(1)</script><p onclick=alert(1) style='position:fixed'>x</p><a href='javascript:alert(1)'>y</a>"
        "<img src=x onerror=alert(1)><svg><script>alert(1)</script></svg><iframe src='javascript:alert(1)'></iframe>"
        "<form action='https://evil.example'><input name=password></form><base href='https://evil.example/'>"
    )
    html = await read(page(f"<h1>One</h1><p>{TEXT * 3}</p>{bad}<p>{TEXT * 3}</p>"))
    for part in ("script", "onclick", "onerror", "style=", "javascript", "<form", "<input", "<svg"):
        assert part not in html


@pytest.mark.parametrize(
    "body",
    [
        page("<div>" * 20_000 + TEXT * 5),
        page("<b><i>" * 20_000 + TEXT * 5),
        page("<div>" * 300 + TEXT * 5 + "</div>" * 300),
        page(f"<p>{TEXT}<table><tr><td><ul><li>" * 3000),
        page(f"<a href=/x>{TEXT}</a>, " * 9000),
        page("<p>" + "a " * 400_000),
        page(f"<h1>{'x' * 100_000}</h1><p>{TEXT}"),
        page("<p>x</p>" + ("<p" + " a=1" * 4000 + ">") * 100),
        b"<html>" + bytes(range(256)) * 1000,
        b"<p " + b'style="color:red ' * 20_000,
        b"<a href='http://[" * 30_000,
        "<p>\N{RIGHT-TO-LEFT OVERRIDE}\udcff</p>".encode("utf-8", "surrogatepass") * 5000,
    ],
    ids=[*map(str, range(12))],
)
async def test_a_hostile_page_costs_two_seconds_at_most(body: bytes) -> None:
    seconds = 0.0
    with suppress(ParseError):
        _, seconds = await PARSER.measured(ARTICLE_IN, URL, body, URL, TYPE, "One", "", "", keys=("articles",))
    assert seconds < 3


async def test_a_page_in_another_encoding_is_decoded() -> None:
    text = f"<h1>Один</h1><p>{'Гавань была тихой, и никто не видел парома со вторника. ' * 12}</p>"
    body = page(text, '<meta charset="windows-1251">').decode().encode("windows-1251")
    found = await PARSER.run(ARTICLE_IN, URL, body, URL, "text/html", "Один", "", "")
    assert "никто не видел парома" in found.text


async def test_chosen_elements_are_sanitised_as_others_are() -> None:
    """A picture that scripts would load is there, and the element's place in the page doesn't matter."""
    text = '<p onclick="x()">One <script>x()</script><img data-src="/boat.jpg"></p>'
    html = await read(page(f"<h1>One</h1><p>{TEXT}</p>", f"<noscript></noscript>{text}"), article="p[onclick]")
    assert "onclick" not in html
    assert "script" not in html
    assert "https://paper.example/boat.jpg" in html
    assert "harbour" not in html


@pytest.mark.parametrize(
    "selector",
    [
        "* * * * * * * * * *",
        "p:nth-last-child(3n+1)",
        ":not(" * 90 + "p" + ")" * 90,
        "p ~ p ~ p ~ p",
        ", ".join("p" * 160),
    ],
)
@pytest.mark.parametrize(
    "body", [page(f"<p>{TEXT}</p>" * 20_000), page("<div>" * 300 + TEXT * 5), page("<b><i>" * 10_000)], ids=range(3)
)
async def test_a_slow_selector_costs_two_seconds_at_most(body: bytes, selector: str) -> None:
    for chosen in ((selector, ""), ("", selector)):
        seconds = 0.0
        with suppress(ParseError):
            about = URL, TYPE, "One", *chosen
            _, seconds = await PARSER.measured(ARTICLE_IN, URL, body, *about, keys=("articles",))
        assert seconds < 3
