"""Sanitised foreign HTML, and its plain text."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from microsub.formats.html import sanitise
from microsub.formats.html.sanitise import SANDBOX, clean_html, clean_srcset, text_to_html
from microsub.formats.html.text import html_to_text, title_text
from microsub.formats.normalise import content_of
from tests.support import cases

BASE = "https://s.example/posts/1"
PLAYED = "https://www.youtube.com/embed/x"
FRAME = f'<iframe src="{PLAYED}" loading="lazy" sandbox="{SANDBOX}"></iframe>'


@pytest.mark.parametrize(("html", "cleaned"), cases("html_becomes_harmless", "html", "cleaned"))
def test_html_becomes_harmless(html: str, cleaned: str) -> None:
    """Structure stays; scripts, styles, handlers, trackers and foreign frames go; links become absolute."""
    assert clean_html(html, BASE) == cleaned


def test_known_players_keep_an_empty_frame() -> None:
    """A frame from the list is sandboxed; text between its tags could become markup elsewhere."""
    cleaned = clean_html('<iframe src="//player.vimeo.com/video/1" onload=x><img src=x onerror=y></iframe>', BASE)
    assert cleaned == f'<iframe src="https://player.vimeo.com/video/1" loading="lazy" sandbox="{SANDBOX}"></iframe>'


@pytest.mark.parametrize(
    ("html", "left"),
    [
        ("<iframe></ifr<img y>ame><script>alert(1)</script></iframe>", ""),
        ("<iframe></ifr<img y>ame><details open ontoggle=alert(1)>x</details></iframe>", ""),
        ("<iframe><<img x>/iframe><svg onload=alert(1)></iframe>", ""),
        (f'<iframe src="{PLAYED}"></ifr<img y>ame><svg onload=alert(1)></iframe>', FRAME),
        (f'<iframe src="{PLAYED}"><<img x>/iframe><script>alert(1)</script></iframe>', FRAME),
        (f'<iframe src="{PLAYED}"></ifr&#1;ame><script>alert(1)</script></iframe>', FRAME),
        (f'<iframe src="{PLAYED}">text<img x</iframe> behind', f"{FRAME} behind"),
        (f'<iframe src="{PLAYED}"><p>and the rest of the page', FRAME),
        ('<iframe><img title="</iframe><img src onerror=alert(1)>">behind', '"&gt;behind'),
        ("<iframe><video></iframe><video></video>behind", "behind"),
        ("<video><iframe></video><script>alert(1)</script></iframe></video>behind", "behind"),
        ("<math><iframe></math><script>alert(1)</script></iframe><mi>a</mi></math>", "<math></math>"),
    ],
)
def test_text_in_a_frame_never_becomes_markup(html: str, left: str) -> None:
    """The text between a frame's tags is raw: no removal inside completes an end tag, or reaches the text outside."""
    assert clean_html(html, BASE) == left
    content = content_of(html, None, BASE)
    assert (content.html if content else "") == left


@pytest.mark.parametrize(
    ("html", "left"),
    [
        ("<video><img src=/a.png></video>", '<img src="https://s.example/a.png">'),
        ("<audio><source src=/a.mp3><video></video></audio>",
         '<audio controls=""><source src="https://s.example/a.mp3"></audio>'),
        ("<p><video><p>a</p></video>b</p>", "<p></p><p>a</p>b<p></p>"),
    ],
)  # fmt: skip
def test_a_player_without_a_source_leaves_what_replaces_it(html: str, left: str) -> None:
    """Only its own tags go, and the result is well-formed."""
    assert clean_html(html, BASE) == left


@pytest.mark.parametrize(("source", "kept"), cases("only_players_are_framed", "source", "kept"))
def test_only_players_are_framed(source: str, kept: str | None) -> None:
    """Exact hosts and paths, over https, on the default port, without a user name."""
    found = re.search(r'<iframe src="([^"]*)"', clean_html(f'<iframe src="{source}"></iframe>', BASE))
    assert (found and found[1]) == kept


@pytest.mark.parametrize("names", [("video",), ("audio", "video")])
def test_players_in_one_another_are_searched_once(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a body of 400 kB takes more than ten seconds."""
    searched: list[int] = []
    search = sanitise._silent

    def counted(tokens: list[re.Match[str]], start: int) -> tuple[set[int], int]:
        searched.append(start)
        return search(tokens, start)

    monkeypatch.setattr(sanitise, "_silent", counted)
    opened = "".join(f"<{name}>" for name in names) * 50
    assert clean_html(f'{opened}text<source src="/a">', BASE).count('controls=""') == 50 * len(names)
    assert len(searched) == len(names)


def test_cleaning_twice_changes_nothing() -> None:
    """So a planet's copy of a post equals the original."""
    html = '<p>a <a href="/x">b</a><img src="c.png" srcset="d.png 2x"><q cite="/e">f</q> &nbsp; &lt;g&gt;</p>'
    html += '<pre><code class="language-c">x</code></pre><math><mi>y</mi></math><video src="/v"></video>'
    once = clean_html(html, BASE)
    assert clean_html(once, "https://elsewhere.example/") == once


@pytest.mark.parametrize(
    "html",
    [
        "<pre>\n\nfirst lines</pre><pre class='lang-py'>\n\n\nx</pre>",
        "\ufeff\ufeff <p>a</p>\ufeff",
        "<p>a</p> \x1b&#1;\n",
        '<a name="a b" href="/x">c</a>',
        "https://t.example/it's&nbsp;here",
        "<p>x&nbsp;https://t.example/</p>",
    ],
)
def test_cleaning_a_body_twice_changes_nothing(html: str) -> None:
    """What the parser leaves out or writes in another way is settled the first time."""
    once = content_of(html, None, BASE)
    assert once is not None
    assert content_of(once.html, None, BASE) == once


def test_the_first_line_of_code_stays_blank() -> None:
    """Parsers ignore the line break after `pre`, so a blank line there needs two."""
    assert clean_html("<pre>\n\nx</pre>", BASE) == "<pre>\n\nx</pre>"
    assert clean_html("<pre>\nx</pre>", BASE) == "<pre>x</pre>"


def test_the_result_is_the_same_in_every_process() -> None:
    """A post's hash is compared across processes, so it must not depend on the order of a set."""
    code = (
        "from microsub.formats.html.sanitise import clean_html as c;"
        "print(c('<iframe src=https://youtube.com/embed/1 width=1 height=2></iframe>"
        "<video src=/a poster=/b width=1 height=2></video><img src=/a srcset=/b alt=c width=5 title=t lang=de>',"
        "'https://s.example/'))"
    )
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(4)}
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("srcset", "cleaned"),
    [
        ("a.png 1x, /b.png 2x", "https://s.example/posts/a.png 1x, https://s.example/b.png 2x"),
        ("a.png", "https://s.example/posts/a.png"),
        ("data:image/png;base64,AA 1x, a.png 100w", "https://s.example/posts/a.png 100w"),
        ("javascript:x 1x", None),
        ("", None),
        (
            "a,b.png 2x, ,c.png,\n  d.png 3x 100w ,",
            "https://s.example/posts/a%2Cb.png 2x, https://s.example/posts/c.png, "
            "https://s.example/posts/d.png 3x 100w",
        ),
        ("a.png 1x, b.png wide, c.png", "https://s.example/posts/a.png 1x, https://s.example/posts/c.png"),
    ],
)
def test_a_srcset_keeps_its_web_addresses(srcset: str, cleaned: str | None) -> None:
    """They become absolute; other candidates are removed."""
    assert clean_srcset(srcset, BASE) == cleaned


@pytest.mark.parametrize(("html", "text"), cases("html_reads_like_a_page", "html", "text"))
def test_html_reads_like_a_page(html: str, text: str) -> None:
    """Paragraphs, lines and lists break where a browser breaks them; nothing else does."""
    assert html_to_text(clean_html(html, BASE)) == text


def test_text_becomes_html_and_back() -> None:
    """A plain body is shown with its paragraphs, and nothing in it is markup."""
    text = "One <b>\ntwo\n\nthree & four"
    html = text_to_html(text)
    assert html == "<p>One &lt;b&gt;<br>two</p><p>three &amp; four</p>"
    assert html_to_text(html) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("A <em>b</em> c", "A b c"),
        ("A &amp; B", "A & B"),
        ("<p>A</p><p>B</p>", "A B"),
        ("x<script>alert(1)</script>y", "xy"),
        (" a\n b ", "a b"),
    ],
)
def test_a_title_is_one_line_of_text(markup: str, text: str) -> None:
    """Titles lose markup and line breaks."""
    assert title_text(markup) == text


def test_an_empty_body_is_left_out() -> None:
    """A body without remaining content is left out."""
    assert content_of("<script>x</script>", None, BASE) is None
    assert content_of(None, "  ", BASE) is None
    assert content_of(None, None, BASE) is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('width="640" height="480"', 'width="640" height="480"'),
        ('width="640px" height=" 480 "', 'width="640" height="480"'),
        ('width="640.5" height="1"', 'width="640" height="1"'),
        ('width="10000" height="10001"', 'width="10000"'),
        ('width="100%" height="auto"', ""),
        ('width="-3" height="99999999999999999999"', ""),
        ('width="٣٠٠" height="1e3"', ""),
        ('width="calc(1px)" height=""', ""),
        ('width="012" height="0x20"', 'width="12"'),
    ],
)
def test_an_image_keeps_the_sizes_that_its_markup_tells(given: str, kept: str) -> None:
    """Whole pixels up to 10,000, so that readers can leave room for it; no picture is requested to learn its size."""
    image = '<img src="https://a.example/i.png"'
    assert clean_html(f"{image} {given}>", "https://a.example/") == f"{image} {kept}".strip() + ">"


def test_players_keep_widths_in_per_cent() -> None:
    """Players are usually embedded in that way; other values are removed, as from images."""
    url = "https://www.youtube.com/embed/x"
    cleaned = clean_html(f'<iframe src="{url}" width="100%" height="1000%"></iframe>', "https://a.example/")
    assert 'width="100%"' in cleaned
    assert "height" not in cleaned
    assert 'width="640"' in clean_html('<video src="https://a.example/v.mp4" width="640px"></video>', "")


@pytest.mark.timeout(30)  # with a pattern that tries every split they take minutes
@pytest.mark.parametrize("srcset", [" " * 100_000, "a" * 100_000 + " x", "a " + "1x " * 50_000 + "x", ", " * 50_000])
def test_the_time_for_a_srcset_grows_with_its_length(srcset: str) -> None:
    """For any length of a run of spaces, letters or descriptors in it."""
    assert clean_srcset(srcset, BASE) is None


@pytest.mark.timeout(30)
def test_the_time_for_a_size_grows_with_its_length() -> None:
    """Blanks after a number are read once."""
    blanks = " " * 200_000
    assert clean_html(f'<img src="https://a.example/" width="7{blanks}x">', BASE) == '<img src="https://a.example/">'


def test_a_tag_with_endless_attributes_leaves_its_words() -> None:
    """Putting them into a tree takes time with the square of their number."""
    crowd = " ".join(f"a{number}" for number in range(60_000))
    assert clean_html(f"<p {crowd}>words <b>and more</b></p>", "https://a.example/") == "words  and more"
