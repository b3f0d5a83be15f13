"""The words of a search in posts: where they are marked, in texts and in sanitised HTML."""

from __future__ import annotations

import random
import time

import pytest
from markupsafe import Markup

from microsub.formats.html.sanitise import clean_html
from microsub.formats.html.text import html_to_text
from microsub.model.jf2 import Content, Entry
from microsub.model.words import placed_words, words_of
from microsub.reader.reading.body import body_fitter, excerpt
from microsub.reader.reading.hits import NO_HITS, SearchHits
from microsub.reader.reading.posts import _lead
from tests.support.posts import NOON

BASE = "https://a.example/"

TEXTS = [
    ("ferry", "The Ferry, the ferry.", "The [Ferry], the [ferry]."),
    ("ferry", "ferryman", "ferryman"),
    ("ferr*", "the ferrymen of Ferrol", "the [ferrymen] of [Ferrol]"),
    ('"late ferry"', "a late  ferry, a late night ferry", "a [late  ferry], a late night ferry"),
    ('"late ferr*"', "a late ferryman", "a late ferryman"),
    ("late ferry", "a ferry, late", "a [ferry], [late]"),
    ("gull OR tern", "gull, tern", "[gull], [tern]"),
    ("ferry -fog", "ferry in fog", "[ferry] in fog"),
    ("strasse cafe", "Straße im Café, Cafe\u0301s, CAFE\u0301", "[Straße] im [Café], Cafe\u0301s, [CAFE\u0301]"),
    ("don't", "we don’t, don't", "we [don’t], [don't]"),
    ("日本", "今日本語で", "今[日本]語で"),
    ("日", "今日本語で", "今[日]本語で"),
    ("日本語", "日本語、日本", "[日本語]、日本"),
    ("❤", "a❤b", "a[❤]b"),
    ("title:ferry kind:photo is:read after:2020", "ferry photo", "ferry photo"),
    ("harbour.example", "see https://harbour.example/x", "see https://[harbour.example]/x"),
    ('"tide tide" "tide tide"', "tide tide tide tides tide", "[tide tide tide] tides tide"),
    ("a_b", "a_b a b", "[a_b] [a b]"),
    ('<b> "&"', "a <b> & c", "a <[b]> & c"),
]


def shown(marked: str) -> str:
    text = str(marked).replace("<mark>", "[").replace("</mark>", "]")
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").replace("&amp;", "&")


@pytest.mark.parametrize(("query", "text", "marked"), TEXTS, ids=[query for query, _, _ in TEXTS])
def test_words_are_marked_in_texts(query: str, text: str, marked: str) -> None:
    """As the index finds them: whole words in any spelling, phrases, beginnings, parts of unspaced scripts."""
    assert shown(SearchHits.of(query, NOON).text(text)) == marked


def test_fields_are_marked_only_where_they_are_sought() -> None:
    """A word for titles or authors isn't marked in other texts."""
    hits = SearchHits.of("title:ferry author:ann tide", NOON)
    text = "ferry ann tide"
    assert shown(hits.title(text)) == "[ferry] ann [tide]"
    assert shown(hits.author(text)) == "ferry [ann] [tide]"
    assert shown(hits.text(text)) == "ferry ann [tide]"


@pytest.mark.parametrize("query", ["", 'tide "fog', "kind:poem", "is:unread", "OR"])
def test_a_search_without_words_marks_nothing(query: str) -> None:
    """Nor does one that can't be read."""
    hits = SearchHits.of(query, NOON)
    assert hits.text("tide & fog is unread OR") == "tide &amp; fog is unread OR"
    assert hits.html("<p>tide</p>") == "<p>tide</p>"
    assert (hits == NO_HITS) == (hits.query == "")


BODIES = [
    ("<p>a ferry &amp; a <i>ferry</i></p>", "<p>a <mark>ferry</mark> &amp; a <i><mark>ferry</mark></i></p>"),
    ("<p>the <b>late</b> ferry</p>", "<p>the <b><mark>late</mark></b><mark> ferry</mark></p>"),
    ('<p title="ferry">x</p>', '<p title="ferry">x</p>'),
    ('<img src="/ferry.png" alt="ferry > x">', None),
    ("<math><mi>ferry</mi></math> ferry", "<math><mi>ferry</mi></math> <mark>ferry</mark>"),
    ("&lt;ferry&gt;", "&lt;<mark>ferry</mark>&gt;"),
    ("fer<b>ry</b>", "fer<b>ry</b>"),
    ("<mark>ferry</mark>", "<mark><mark>ferry</mark></mark>"),
]


@pytest.mark.parametrize(("html", "expected"), BODIES)
def test_words_are_marked_in_bodies(html: str, expected: str | None) -> None:
    """Only between tags; a phrase continues after a tag."""
    query = '"late ferry" OR ferry' if "late" not in html else '"late ferry"'
    fit = body_fitter(lambda url: f"/image/{url}", SearchHits.of(query, NOON))
    without = body_fitter(lambda url: f"/image/{url}")
    stored = clean_html(html, BASE)
    assert fit(stored) == (without(stored) if expected is None else expected)


def test_no_markup_comes_from_marks() -> None:
    """Without the marks, a body is what it is without a search."""
    some = random.Random(7)
    parts = [
        *(
            "<b>",
            "</b>",
            '<a href="/x?a=1&amp;b=2">',
            "</a>",
            "<mark>",
            "&lt;script&gt;",
            "&amp;amp;",
            "<math><mi>",
            "“",
        ),
        *(
            "</mi></math>",
            '<img src="/a.png" alt="a > b">',
            "late",
            " ",
            "ferry",
            "日本",
            "'",
            '"',
            "<pre>\n",
            "</pre>",
        ),
        *("<table><tr><td>", "</table>", "<iframe src=https://www.youtube.com/embed/abcdefghijk></iframe>"),
    ]
    for _ in range(400):
        stored = clean_html("".join(some.choices(parts, k=12)), BASE)
        words = " ".join(some.choices(["late", "ferry", '"late ferry"', "日", "script", "amp", "a", "b", "fer*"], k=2))
        marked = body_fitter(str, SearchHits.of(words, NOON))(stored)
        plain = body_fitter(str)(stored)
        bare = [html.replace("<mark>", "").replace("</mark>", "") for html in (marked, plain)]
        assert bare[0] == bare[1], (stored, words)
        assert html_to_text(marked) == html_to_text(plain)


def test_words_have_their_places() -> None:
    """The same words as the index has, and each where it stands."""
    texts = [text for _, text, _ in TEXTS] + [
        "e\u0301t\u00e9 ½ Ⅳ",
        "ﬁn",
        "नमस्ते दुनिया",
        "שָׁלוֹם",
        "ไทย abc",
        "안녕하세요 세계",
    ]
    for text in texts:
        found = placed_words(text)
        assert [one.word for one in found] == words_of(text), text
        assert all(0 <= one.start < one.end <= len(text) for one in found)
        assert [one.start for one in found] == sorted(one.start for one in found)


def test_an_excerpt_shows_the_first_hit() -> None:
    """If the beginning of a long post has none."""
    hits = SearchHits.of("lighthouse", NOON)
    text = "Words that go on. " * 40 + "At last the lighthouse was seen. " + "And more of it. " * 40
    found = hits.excerpt(150, excerpt(text), "", text)
    assert found.startswith("… ")
    assert found.endswith(" …")
    assert 0 < found.index("lighthouse") < 80
    for other in ("The lighthouse first. " + text, "Nothing of it. " * 40):
        assert hits.excerpt(150, excerpt(other), "", other) == excerpt(other)


def test_a_long_title_has_a_beginning_that_lists_leave_out() -> None:
    """If its first hit would be cut off; otherwise it is as it is."""
    hits = SearchHits.of("lighthouse", NOON)
    begin, rest = f"{'Words & more ' * 8}of ", "what they say at the lighthouse"
    early = f'<span class="early">{Markup.escape(begin)}</span><span class="after-early"></span>'
    assert hits.title(begin + rest, 60) == early + rest.replace("lighthouse", "<mark>lighthouse</mark>")
    assert hits.title(begin + rest) == Markup.escape(begin) + hits.title(rest)
    for other in ("The lighthouse " + begin, begin * 2):
        assert hits.title(other, 60) == hits.title(other)


def test_a_huge_post_is_marked_as_far_as_the_index_goes() -> None:
    """The index has its first hundred thousand characters; a post of megabytes would take a minute."""
    marked = SearchHits.of("ferry", NOON).html(f"<p>ferry</p><p>{'tide ' * 25_000}</p><p>ferry</p>")
    assert marked.startswith("<p><mark>ferry</mark></p>")
    assert marked.endswith("<p>ferry</p>")


def test_marks_of_a_huge_post_are_quick() -> None:
    """A hundred thousand words, all of them found, in many elements."""
    stored = "<p>ferry <b>late</b> ferry</p>" * 3_000
    hits = SearchHits.of(" OR ".join(["ferry", "late", *(f"word{n}*" for n in range(60))]), NOON)
    began = time.process_time()
    assert hits.html(stored).count("<mark>") == 9_000
    print(f"{time.process_time() - began:.2f} s")


@pytest.mark.parametrize(
    ("title", "begins"), [("Short", "zero one"), ("A title " + 12 * "that goes on ", "… late ten")]
)
def test_an_excerpt_in_a_list_leaves_room_for_the_title(title: str, begins: str) -> None:
    """Of a long title's line, little is left for the excerpt: it begins at the hit."""
    text = "zero one two three four five six seven eight nine late ten eleven"
    entry = Entry("entry", name=title, content=Content(text=text))
    assert _lead(entry, SearchHits.of("late", NOON), "list").startswith(begins)
