"""The missing properties of an entry, and the entry after they are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub.formats.lookups import MAX_TARGETS, LookUp, completed, lacking
from microsub.formats.parse import parse
from microsub.formats.references import MAX_TEXT, answer
from microsub.formats.wire import to_wire
from microsub.model.jf2 import Card, Content, Entry

HOME = "https://ann.example/"
THERE = "https://bob.example/1"
ANN = Card(name="Ann", url=HOME, photo=f"{HOME}a.png")
POST = Entry(url=f"{HOME}notes/1", author=ANN)
PAGE = LookUp("author", HOME)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (POST, ()),
        (replace(POST, author=None), ()),
        (replace(POST, author=Card(name="Ann")), ()),
        (replace(POST, author=replace(ANN, name=None)), (PAGE,)),
        (replace(POST, author=replace(ANN, photo=None)), (PAGE,)),
        (replace(POST, author=Card(url=POST.url)), ()),
        (replace(POST, author=Card(url=f"{POST.url}/#me")), ()),
        (replace(POST, author=Card(url=f"{HOME}ann.jpg")), ()),
        (replace(POST, author=Card(url="https://ann:secret@ann.example/")), ()),
        (replace(POST, author=Card(url="https://www.reddit.com/user/ann")), ()),
        (replace(POST, like_of=("https://x.com/ann/1", "https://box.com/1")), (LookUp("target", "https://box.com/1"),)),
        (replace(POST, in_reply_to=(THERE,)), (LookUp("target", THERE),)),
        (replace(POST, rsvp="yes", in_reply_to=(THERE,)), (LookUp("target", THERE),)),
        (replace(POST, quotation_of=THERE), (LookUp("target", THERE),)),
        (replace(POST, in_reply_to=(f"{POST.url}#c1",)), ()),
        (replace(POST, bookmark_of=("https://files.example/book.PDF?x#page=2",)), ()),
        (replace(POST, like_of=(THERE,), in_reply_to=(THERE, f"{THERE}?utm_source=x")), (LookUp("target", THERE),)),
        (
            replace(POST, like_of=("https://l.example/1",), repost_of=("https://r.example/1",), in_reply_to=(THERE,)),
            (LookUp("target", THERE), LookUp("target", "https://r.example/1"), LookUp("target", "https://l.example/1")),
        ),
        (replace(POST, author=Card(url=HOME), like_of=(HOME,)), (PAGE, LookUp("target", HOME))),
        (
            replace(POST, like_of=(THERE,), refs={THERE: Entry(url=THERE, author=Card(name="Bob"))}),
            (LookUp("target", THERE),),
        ),
        (replace(POST, like_of=(THERE,), refs={THERE: Entry(url=THERE, name="One")}), ()),
        (replace(POST, like_of=(THERE,), refs={THERE: Card(name="Bob", url=THERE)}), ()),
        (replace(POST, like_of=(THERE,), refs={THERE: Card(url=THERE)}), (LookUp("target", THERE),)),
    ],
)
def test_an_entry_lacks_authors_and_references(entry: Entry, expected: tuple[LookUp, ...]) -> None:
    """The author's page for a name or a photo, and targets without a reference, if they may be requested."""
    assert lacking(entry) == expected


def test_the_document_itself_is_not_looked_up() -> None:
    """Its people were read with it."""
    entry = replace(POST, author=Card(url=HOME))
    assert lacking(entry, "https://other.example/feed") == (PAGE,)
    assert lacking(entry, "http://ann.example") == ()


def test_look_ups_are_few() -> None:
    """This holds for any number of targets, also under tracking parameters."""
    many = tuple(f"https://bob.example/{number}" for number in range(50))
    assert lacking(replace(POST, in_reply_to=many)) == tuple(LookUp("target", url) for url in many[:MAX_TARGETS])


def test_only_gaps_are_filled() -> None:
    """The publisher's own data on author and target stay; addresses never change."""
    entry = replace(
        POST,
        author=Card(name="A.", url=HOME),
        like_of=(THERE,),
        refs={THERE: Entry(url=THERE, author=Card(name="Bob"))},
    )
    found: dict[LookUp, Card | Entry] = {
        PAGE: Card(name="Ann Hill", url="https://elsewhere.example/", photo=f"{HOME}a.png"),
        LookUp("target", THERE): Entry(url="https://elsewhere.example/", name="One", author=Card(name="Robert")),
    }
    result = completed(entry, found)
    assert result.author == Card(name="A.", url=HOME, photo=f"{HOME}a.png")
    assert result.refs == {THERE: Entry(url=THERE, name="One", author=Card(name="Bob"))}
    assert completed(result, found) is result


def test_answers_to_other_questions_are_left_out() -> None:
    """An entry that was edited meanwhile gets no reference that it doesn't name."""
    assert completed(POST, {PAGE: Card(name="Eve"), LookUp("target", THERE): Entry(name="One")}) is POST
    liking = replace(POST, author=Card(url=HOME), like_of=(THERE,))
    assert completed(liking, {}) is liking
    assert completed(liking, {PAGE: Entry(name="No card")}) is liking
    person = completed(liking, {LookUp("target", THERE): Card(name="Bob", url=THERE)})
    assert to_wire(person)["refs"] == {THERE: {"type": "card", "name": "Bob", "url": THERE}}


def test_a_reference_is_bounded() -> None:
    """A novel, thousands of pictures, nested contexts: a few kilobytes remain."""
    pictures = "".join(f'<img class="u-photo" src="/{n}.jpg">' for n in range(2000))
    words = "pears &amp; apples " * 5000
    cite = '<div class="u-in-reply-to h-cite"><a class="u-url p-name" href="https://c.example/1">x</a></div>'
    page = (
        f'<title>{words}</title><div class="h-entry"><h1 class="p-name">{words[:9000]}</h1>{pictures}{cite * 50}'
        f'<div class="p-summary">{words}</div><div class="e-content"><p>{words}</div></div>'
    )
    found = answer(LookUp("target", THERE), page.encode(), THERE, "text/html")
    assert isinstance(found, Entry)
    assert found.content is not None
    assert len(found.content.text or "") <= MAX_TEXT
    assert len(str(to_wire(found))) < 12_000
    assert found.refs == {}
    assert found.content != Content()


def test_hostile_pages_end() -> None:
    """Every look-up returns an answer, without an error."""
    pieces = (
        '<div class="h-entry"><div class="h-card"><a class="u-url" href="/">x</a></div></div>',
        '<b class="h-card"><p class="h-entry">',
        '<p class="h-entry">&amp;&lt;',
        '<meta property="og:title" content="x">',
        "<title>",
        '<div class="h-entry h-card" ' + " ".join(f"a{n}=b" for n in range(200)) + ">",
    )
    for piece in pieces:
        page = (piece * (2_000_000 // len(piece))).encode()
        for look_up in (LookUp("author", THERE), LookUp("target", THERE)):
            found = answer(look_up, page, THERE, "text/html")
            assert found is None or len(str(found)) < 20_000


@pytest.mark.parametrize("body", [b"", b"\x89PNG\r\n", b"{}", b"<rss/>", b"<", b"<html>", b"\xff\xfe<\x00"])
def test_non_pages_give_no_answer(body: bytes) -> None:
    """Images, feeds, broken documents: no answer, no error."""
    assert answer(LookUp("target", THERE), body, THERE, None) is None
    assert answer(LookUp("author", HOME), body, HOME, "text/html") is None


@pytest.mark.parametrize(
    ("page", "author"),
    [
        ('<a class="u-author" href="/about"></a>{}', {"url": "https://ann.example/about"}),
        ('<div class="h-entry"><a class="u-author" href="/about"></a>x</div>', {"url": "https://ann.example/about"}),
        ('<a class="u-author" href="/"></a>{}', {"name": "A site", "url": HOME}),
        ('<span class="p-author">Ann</span>{}', {"name": "Ann", "url": HOME}),
        ("{}", {"name": "A site", "url": HOME}),
    ],
)
def test_no_author_is_called_by_the_title_of_the_page(page: str, author: dict[str, str]) -> None:
    """The title is used only if nothing else of the page is known."""
    entry = '<div class="h-entry"><p class="e-content">x</p></div>'
    body = f'<title>A site</title><div class="h-feed">{page.format(entry)}</div>'
    (found,) = parse(body.encode(), HOME, "text/html").entries
    assert to_wire(found)["author"] == {"type": "card", **author}


def test_the_author_of_a_post_that_leads_home_is_looked_up_there() -> None:
    """A post without an address of its own has its feed's home page instead, which isn't the post's page."""
    entry = Entry(url="https://ann.example/", author=Card(name="Ann", url="https://ann.example/"))
    assert lacking(entry) == (LookUp("author", "https://ann.example/"),)
    assert lacking(entry, "https://ann.example/") == ()
