"""Publishers' own shapes of pictures, players and formulas, and what people see of them."""

from __future__ import annotations

import html as entities
import re
import time

import pytest

from microsub.formats.html.sanitise import SANDBOX, clean_html, text_to_html
from microsub.formats.normalise import content_of

BASE = "https://s.example/posts/1"
A = "https://s.example/a.png"


def plain(html: str) -> str:
    """A sanitised body without the attributes that every frame and link has."""
    return re.sub(r' (?:rel|loading|sandbox)="[^"]*"', "", clean_html(html, BASE))


LAZY = [
    '<img data-src="/a.png">',
    '<img src="data:image/gif;base64,R0" data-src="/a.png">',
    '<img src="/blank.gif" data-lazy-src="/a.png">',
    '<img src="/x.jpg" data-original="/a.png">',
    '<img data-cfsrc="/a.png"><noscript><img src="/a.png"></noscript>',
    '<img src="//s.example/a.png">',
    '<img src="/placeholder.png" data-orig-file="/a.png">',
    '<img data-large-file="/a.png">',
    '<img data-url="/a.png">',
    '<img data-orig="/a.png">',
    '<img data-hi-res-src="/a.png">',
    '<img src="data:," data-actualsrc="/a.png">',
    '<img src="about:blank" data-lazyload="/a.png">',
    '<img data-echo="/a.png">',
    '<img data-ezsrc="/a.png">',
    '<img data-pagespeed-lazy-src="/a.png">',
    '<div class="lazy" data-src="/a.png"></div>',
    '<div data-bg="/a.png"></div>',
    '<div style="background-image: url(&quot;/a.png&quot;)"></div>',
    '<figure><span style="background:url(/a.png) center"></span></figure>',
    '<amp-img src="/a.png" layout="fill"></amp-img>',
    '<amp-img src="/a.png"><noscript><img src="/a.png"></noscript></amp-img>',
    '<svg viewBox="0 0 1 1"><title>x</title><image href="/a.png"></image></svg>',
    '<svg><image xlink:href="/a.png"/></svg>',
    '<input type="image" src="/a.png">',
    '<object type="image/png" data="/a.png">x</object>',
    '<img src="/spacer.gif"><noscript><img src="/a.png"></noscript>',
    '<noscript><img src="/a.png"></noscript><img data-src="/a-300x200.png">',
    '<img data-src="/a-300x200.png"><noscript><img src="/a.png"></noscript>',
]


@pytest.mark.parametrize("html", LAZY)
def test_a_lazy_picture_is_shown_once(html: str) -> None:
    """Whatever the publisher's script would have done."""
    shown = re.findall(r'<img src="([^"]*)"', plain(html))
    assert len(shown) == 1
    assert shown[0].replace("-300x200", "") == A
    assert "blank" not in plain(html)


def test_lazy_pictures_with_later_noscripts_are_shown_once() -> None:
    """Also if the picture's own text is between."""
    pair = '<img data-src="/a.png"><p>A</p><img data-src="/b.png">'
    both = '<noscript><img src="/a.png"></noscript><noscript><img src="/b.png"></noscript>'
    other = '<noscript><img src="/c.png"></noscript>'
    shown = re.findall(r'<img src="https://s.example/(\w)', plain(pair + both + other))
    assert shown == ["a", "b", "c"]


SETS = [
    ('<img data-srcset="/a.png 1x, /b.png 2x">', "https://s.example/a.png 1x, https://s.example/b.png 2x"),
    ('<img src="data:," data-lazy-srcset="/a.png 300w">', "https://s.example/a.png 300w"),
    ('<picture><source srcset="/a.png 2x" type="image/png"><img alt="A"></picture>', "https://s.example/a.png 2x"),
    ('<picture><source data-srcset="/a.png"><img alt="A"></picture>', "https://s.example/a.png"),
]


@pytest.mark.parametrize(("html", "srcset"), SETS)
def test_a_picture_with_only_a_lazy_srcset_is_shown(html: str, srcset: str) -> None:
    """Also one that has its addresses in the elements around it."""
    assert f'<img srcset="{srcset}"' in plain(html)


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        # Nothing in a noscript is lost because something else is lazy.
        ('<img data-src="/l.png"> and <noscript><figure><img src="/r.png"></figure></noscript>',
         '<img src="https://s.example/l.png"> and <figure><img src="https://s.example/r.png"></figure>'),
        ("<noscript><p>Read me</p></noscript>", "<p>Read me</p>"),
        ('<img src="/tall.png" data-attachment-id="7" data-orig-file="/tall-full.png">',
         '<img src="https://s.example/tall.png">'),
        ('<div data-src="/page.html"></div>', "<div></div>"),
        ('<img src="/a.png" width="0" height="0" style="color:transparent;width:100%;height:auto">',
         '<img src="https://s.example/a.png">'),
        ('<img src="/a.png" width="0" height="0" style="border:none;margin:0px">', ""),
        ('<div style="background-image:url(/a.png)">words</div>', "<div>words</div>"),
    ],
)  # fmt: skip
def test_other_pictures_stay_unchanged(html: str, shown: str) -> None:
    """A shape is only changed where it shows nothing."""
    assert plain(html) == shown


YT = "https://www.youtube.com/embed/abcdefghijk"
TUBE = "https%3A%2F%2Ftube.example%2F"
EMBEDLY = f"https://cdn.embedly.com/widgets/media.html?url={TUBE}w%2F1&amp;image={TUBE}1.jpg&amp;src="


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ('<iframe src="https://tube.example/videos/embed/1"></iframe>',
         '<a href="https://tube.example/videos/embed/1">▶ tube.example</a>'),
        ('<iframe src="https://www.google.com/maps/embed?pb=1" title="The harbour"></iframe>',
         '<a href="https://www.google.com/maps/embed?pb=1">▶ The harbour (google.com)</a>'),
        ('<iframe data-src="https://tube.example/1"></iframe>', '<a href="https://tube.example/1">▶ tube.example</a>'),
        (f'<iframe src="about:blank" data-lazy-src="{YT}"></iframe>', f'<iframe src="{YT}"></iframe>'),
        ('<iframe src="https://tube.example/1"><a href="/watch">Watch it</a></iframe>',
         '<a href="https://s.example/watch">Watch it</a>'),
        ('<iframe src="https://tube.example/1"><a name="x">T</a> <a class="b" href=/watch>Watch <b>it</b></a></iframe>',
         '<a href="https://s.example/watch">Watch it</a>'),
        (f'<iframe src="{EMBEDLY}https%3A%2F%2Fwww.youtube.com%2Fembed%2Fabcdefghijk%3Ffeature%3Doembed"></iframe>',
         f'<iframe src="{YT}?feature=oembed"></iframe>'),
        (f'<iframe src="{EMBEDLY}{TUBE}embed%2F1" title="Tide"></iframe>',
         '<a href="https://tube.example/w/1"><img src="https://tube.example/1.jpg" alt=""><br>▶ Tide (tube.example)'
         "</a>"),
        ('<lite-youtube videoid="abcdefghijk" playlabel="Tide"></lite-youtube>',
         f'<iframe src="{YT}" title="Tide"></iframe>'),
        ('<amp-youtube data-videoid="abcdefghijk" width="1"></amp-youtube>', f'<iframe src="{YT}"></iframe>'),
        ('<amp-iframe src="https://tube.example/1"><amp-img placeholder src="/p.png"></amp-img></amp-iframe>',
         '<a href="https://tube.example/1">▶ tube.example</a> <img src="https://s.example/p.png">'),
        (f'<object data="{YT}"><p>no</p></object>', f'<iframe src="{YT}"></iframe>'),
        ('<object><param name="movie" value="http://www.youtube.com/v/abcdefghijk"><embed src="x.swf"></object>',
         f'<iframe src="{YT}"></iframe>'),
        ('<object data="/game.swf"><p>Watch <a href="/film">the film</a></p></object>',
         '<p>Watch <a href="https://s.example/film">the film</a></p>'),
        ('<object data="/a.pdf"><a href="/a.pdf">Slides</a></object>', '<a href="https://s.example/a.pdf">Slides</a>'),
        # Charts are wide by their least width; the script of an embedded text is all that stands for it.
        ('<iframe src="https://c.example/1" title="Chart" style="width:0;min-width:100%"></iframe>',
         '<a href="https://c.example/1">▶ Chart (c.example)</a>'),
        ('<p>a</p><script src="https://gist.github.com/ann/012abc.js?file=x.py"></script><p>b</p>',
         '<p>a</p><a href="https://gist.github.com/ann/012abc">▶ gist.github.com</a> <p>b</p>'),
        ("<script async id='x' src='//asciinema.org/a/14.js'></script>",
         '<a href="https://asciinema.org/a/14">▶ asciinema.org</a>'),
        ('<script src="https://jsfiddle.net/ann/abc/embed/js,html/"></script>',
         '<a href="https://jsfiddle.net/ann/abc">▶ jsfiddle.net</a>'),
        ('<script src="https://t.example/gist.github.com/a.js"></script>', ""),
        # A frame that waits for a script and its repetition are one player.
        (f'<iframe src="about:blank" data-lazy-src="{YT}"></iframe><noscript><iframe src="{YT}"></iframe></noscript>',
         f'<iframe src="{YT}"></iframe>'),
        (f'<noscript><iframe src="{YT}"></iframe></noscript><iframe data-src-cmplz="{YT}"></iframe>',
         f'<iframe src="{YT}"></iframe>'),
        (f'<iframe src="{YT}"></iframe><noscript><iframe src="{YT}2"></iframe></noscript>',
         f'<iframe src="{YT}"></iframe><iframe src="{YT}2"></iframe>'),
        ('<iframe src="" width="0" height="0"><a href="https://m.example/1">The code</a></iframe>',
         '<a href="https://m.example/1">The code</a>'),
        ('<video data-src="/v.mp4" data-poster="/p.png" src=""></video>',
         '<video src="https://s.example/v.mp4" poster="https://s.example/p.png" controls=""></video>'),
        ('<audio><source data-src="/a.mp3"></audio>', '<audio controls=""><source src="https://s.example/a.mp3"></audio>'),
        ('<embed src="https://tube.example/1">', '<a href="https://tube.example/1">▶ tube.example</a>'),
        ('<embed src="/game.swf">', ""),
        ('<iframe src="https://t.example/p" width="0" height="0"></iframe>', ""),
        ('<iframe src="https://t.example/p" style="display:none"></iframe>', ""),
        ('<iframe src="https://www.facebook.com/plugins/like.php?href=x"></iframe>', ""),
        ('<iframe src="javascript:alert(1)"></iframe><iframe srcdoc="x"></iframe>', ""),
        ('<iframe class="wp-embedded-content" src="https://o.example/p/embed/"></iframe>', ""),
    ],
)  # fmt: skip
def test_no_player_vanishes(html: str, shown: str) -> None:
    """Instead of a player that may not be framed there is a link, with its title and still if they are known."""
    assert plain(html) == shown


def test_a_placeholder_is_recognised_in_linear_time() -> None:
    """An address of 60,000 characters once took twelve seconds."""
    before = time.process_time()
    assert clean_html(f'<img src="x" data-src="{"empty" * 12_000}">', "https://a.example/") == ""
    assert time.process_time() - before < 2


def test_the_link_in_a_frame_is_found_in_linear_time() -> None:
    """With 900 addresses in one unfinished tag of each frame, a body of 500,000 characters once took over a minute."""
    frame = f'<iframe src="https://tube.example/1"><a {"href=" * 900}</iframe>'
    before = time.process_time()
    assert plain(frame * 30).count("tube.example/1") == 30
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<img src="https://s.w.org/images/core/emoji/15/72x72/1f600.png" alt="😀" class="wp-smiley">', "😀"),
        ('<img class="wp-smiley" style="height:1em" src="/x.png" alt=":)">', ":)"),
        ('<img class="emoji" src="/1f1e9.png" alt="🇩🇪">', "🇩🇪"),
        ('<img class="emoji" alt="1️⃣" src="/1.png">', "1️⃣"),
        ('<img class="custom emoji" alt=":blob:" src="/b.png">', '<img alt=":blob:" src="https://s.example/b.png">'),
        ('<img alt="日" class="emoji" src="/b.png">', '<img alt="日" src="https://s.example/b.png">'),
        ('<img alt="&lt;b&gt;" class="wp-smiley" src="/b.png">', "&lt;b&gt;"),
    ],
)
def test_an_emoji_picture_becomes_its_text(html: str, text: str) -> None:
    """Otherwise it would be 72 pixels high; a publisher's own picture stays."""
    assert plain(html) == text


MATHML = "<math><mi>E</mi></math>"


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        (f'<span class="katex"><span class="katex-mathml">{MATHML}</span>'
         '<span class="katex-html" aria-hidden="true"><span>E</span></span></span>',
         f"<span><span>{MATHML}</span></span>"),
        (f'<mjx-container><mjx-math aria-hidden="true">E</mjx-math><mjx-assistive-mml>{MATHML}</mjx-assistive-mml>'
         "</mjx-container>", MATHML),
        ('<span class="MathJax_Preview">x</span><script type="math/tex">x&lt;1 &amp; y</script>',
         "\\(x&lt;1 &amp; y\\)"),
        ('<script type="math/tex; mode=display">x < 2</script>', "\\[x &lt; 2\\]"),
        (f'<p>{MATHML}</p> <script type="math/tex">E</script>', f"<p>{MATHML}</p>"),
        (f'{MATHML} and <script type="math/tex">F</script>', f"{MATHML} and \\(F\\)"),
        (f'{MATHML}<img class="mwe-math-fallback-image-inline" aria-hidden="true" src="/m.svg" alt="E">', MATHML),
        ('<span aria-hidden="true">kept</span>', "<span>kept</span>"),
    ],
)  # fmt: skip
def test_a_formula_is_shown_once(html: str, shown: str) -> None:
    """As MathML where there is any, else as the author wrote it."""
    assert plain(html) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("See https://x.example/a.", "See <{}>https://x.example/a</a>."),
        ("(https://x.example/a_(b))", "(<{}>https://x.example/a_(b)</a>)"),
        (
            "https://x.example/?a=1&b=2&utm_source=q, then",
            "<{}>https://x.example/?a=1&amp;b=2&amp;utm_source=q</a>, then",
        ),
        ("javascript://x.example ftp://x.example https://", "javascript://x.example ftp://x.example https://"),
        ('"https://x.example/<b>"', '"<{}>https://x.example/</a>&lt;b&gt;"'),
        ("`https://x.example/` _", "`<{}>https://x.example/</a>` _"),
        ("（https://x.example/道）。", "（<{}>https://x.example/道</a>）。"),
        ("見る https://x.example/a。次！", "見る <{}>https://x.example/a</a>。次！"),
        ("http://[x https://x.example:99999/", "http://[x https://x.example:99999/"),
    ],
)
def test_addresses_in_a_text_can_be_opened(text: str, shown: str) -> None:
    """Punctuation behind one isn't part of it."""
    html = re.sub(r'<a href="[^"]*" rel="noopener noreferrer">', "<{}>", text_to_html(text))
    assert html == shown


def test_addresses_in_a_body_without_links_can_be_opened() -> None:
    """In code they stay as they are, and so does a body whose author makes links."""
    link = '<a href="https://x.example/a" rel="noopener noreferrer">https://x.example/a</a>'
    for html, shown in (
        ("<p>https://x.example/a<br>x</p>", f"<p>{link}<br>x</p>"),
        ("https://x.example/a &amp; b", f"{link} &amp; b"),
        ("<pre>https://x.example/a</pre>", "<pre>https://x.example/a</pre>"),
    ):
        content = content_of(html, None, BASE)
        assert content is not None
        assert content.html == shown
    assert clean_html("https://x.example/a", BASE) == "https://x.example/a"


def test_a_title_that_ends_like_an_id_takes_nothing_away() -> None:
    """Of a frame its sandbox, of a link its relation."""
    player = '<iFrame src="https://www.youtube.com/embed/abc" loading=lazy title="x id="></iFrame>'
    found = clean_html(f'{player}<a href="https://e.example/" title="x name=">e</a>', "https://a.example/1")
    assert f'title="x id=" sandbox="{SANDBOX}"' in found
    assert 'title="x name=" rel="noopener noreferrer"' in found


def test_footnotes_survive_a_second_sanitising() -> None:
    """Imports and exports don't change it."""
    once = clean_html('<a href="#fn">1</a> <p id="fn">note</p>', "https://s.example/", "https://s.example/posts/1")
    assert re.fullmatch(r'<a href="#(n[0-9a-f]{8}-fn)" rel="[a-z ]*">1</a> <p id="\1">note</p>', once)
    assert clean_html(once, "https://other.example/") == once
    assert clean_html(once, "") == once


def test_an_id_can_not_be_one_of_the_page() -> None:
    """It has a prefix, is short, and there are few of them."""
    many = "".join(f'<a href="#x{n}">x</a><b id="x{n}">y</b>' for n in range(2000))
    assert len(re.findall(' id="', clean_html(many, BASE))) == 500
    long = "x" * 101
    assert " id=" not in clean_html(f'<a href="#{long}">x</a><b id="{long}">y</b>', BASE)
    assert " id=" not in clean_html('<a href="/other#main">x</a><b id="main">y</b><b name="main">z</b>', BASE)


@pytest.mark.parametrize(
    ("href", "opened"),
    [
        ("https://www.google.com/url?rct=j&sa=t&url=https://n.example/a%3Fb%3D1&ct=ga", "https://n.example/a?b=1"),
        ("https://l.facebook.com/l.php?u=https%3A%2F%2Fn.example%2Fa%3Ffbclid%3D1&h=AT0", "https://n.example/a"),
        ("https://out.reddit.com/t3_1a?token=b&url=https%3A%2F%2Fn.example%2Fa&app_name=c", "https://n.example/a"),
        ("https://vk.com/away.php?cc_key=&to=https%3A%2F%2Fn.example%2Fa%3Fb%3D1", "https://n.example/a?b=1"),
        ("https://m.vk.com/away?to=https%3A%2F%2Fn.example%2Fa&post=-1_2", "https://n.example/a"),
        ("https://steamcommunity.com/linkfilter/?url=https://n.example/a", "https://n.example/a"),
        ("https://steamcommunity.com/linkfilter/?u=https%3A%2F%2Fn.example%2Fa", "https://n.example/a"),
        ("https://href.li/?https://n.example/a?b=1&c=%20#d", "https://n.example/a?b=1&c=%20#d"),
        ("https://href.li/?javascript:alert(1)", "https://href.li/?javascript:alert(1)"),
        ("https://evil-steamcommunity.com/linkfilter/?url=https://n.example/",) * 2,
        ("https://www.google.com/url?q=javascript:alert(1)", "https://www.google.com/url?q=javascript:alert(1)"),
        ("https://evil.example/url?url=https://n.example/", "https://evil.example/url?url=https://n.example/"),
        ("https://n.example/?srsltid=1&itm_source=a&campaign_id=2&mkt_tok=3&ysclid=4&x=5", "https://n.example/?x=5"),
        ("https://n.example/?_hsenc=1&__hssc=2&hsa_cam=3&fb_action_ids=4&_openstat=5", "https://n.example/"),
        ("https://n.example/?source=rss-8d8c1&ref_src=twsrc", "https://n.example/"),
        ("https://n.example/?source=rss&ref=friend", "https://n.example/?source=rss&ref=friend"),
        ("https://n.example/?ref=s.example", "https://n.example/"),
        ("https://n.example/?a=1&ref=s.example&b=2#c", "https://n.example/?a=1&b=2#c"),
        ("https://n.example/?ref=s.example.org", "https://n.example/?ref=s.example.org"),
    ],
)
def test_links_lead_where_they_say_without_a_counter(href: str, opened: str) -> None:
    """Redirects of search engines and networks are opened, parameters that only count are removed."""
    assert plain(f'<a href="{entities.escape(href)}">x</a>') == f'<a href="{entities.escape(opened)}">x</a>'
