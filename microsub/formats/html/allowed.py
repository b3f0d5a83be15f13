"""What of HTML readers need, and nothing that runs, styles or asks: the lists behind `sanitise`.

MathML is presentation alone (https://www.w3.org/TR/mathml-core/): no links, no actions, and no annotations, which
repeat the formula in another language.
"""

from __future__ import annotations

import re

_INLINE = """a abbr b bdi bdo br cite code data del dfn em font i img ins kbd mark q rb rp rt rtc ruby s samp small span
    strike strong sub sup time tt u var wbr"""
_BLOCK = """address article aside blockquote caption center col colgroup dd details div dl dt figcaption figure footer
    h1 h2 h3 h4 h5 h6 header hr li main ol p pre section summary table tbody td tfoot th thead tr ul"""
_MEDIA = "audio iframe picture source track video"
_MATH = """math merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle
    msub msubsup msup mtable mtd mtext mtr munder munderover semantics"""

MATH = frozenset(_MATH.split())
TAGS = frozenset(f"{_INLINE} {_BLOCK} {_MEDIA}".split()) | MATH

# Their content is no text for people: it goes with them.
_UNREAD = """script style svg template select textarea button noscript noembed noframes object applet title head xmp
    plaintext annotation annotation-xml"""
DROPPED = frozenset(_UNREAD.split())

ATTRIBUTES = {
    "*": {"title", "lang", "dir"},
    "a": {"href", "hreflang"},
    "audio": {"src", "controls", "loop"},
    "blockquote": {"cite"},
    # Of `class` the language stays, which tells how to colour the code.
    "code": {"class"},
    "col": {"span"},
    "colgroup": {"span"},
    "data": {"value"},
    "del": {"cite", "datetime"},
    "details": {"open"},
    "iframe": {"src", "width", "height", "allowfullscreen", "loading"},
    # `style` never survives; it only tells the filter that an image is hidden.
    "img": {"src", "srcset", "sizes", "alt", "width", "height", "style", "data-src", "data-lazy-src", "data-original"},
    "ins": {"cite", "datetime"},
    "li": {"value"},
    "math": {"display", "alttext"},
    "mfrac": {"linethickness"},
    "mi": {"mathvariant"},
    "mo": {"stretchy", "fence", "separator", "form", "largeop", "movablelimits"},
    "mover": {"accent"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtd": {"columnspan", "rowspan"},
    "munder": {"accentunder"},
    "munderover": {"accent", "accentunder"},
    "ol": {"start", "reversed", "type"},
    "pre": {"class"},
    "q": {"cite"},
    "source": {"src", "srcset", "sizes", "type", "media"},
    "td": {"colspan", "rowspan", "align"},
    "th": {"colspan", "rowspan", "align", "scope"},
    "time": {"datetime"},
    "track": {"src", "kind", "label", "srclang"},
    "video": {"src", "poster", "width", "height", "controls", "loop"},
}

# Exact hosts, and the paths under which they serve players: other paths of theirs may lead anywhere.
_PLAYERS = r"""(?ix)https://(?![^?\#]*/(?:\.|%2e)+(?:[/?\#]|\Z))(?:
      (?:www\.)?youtube(?:-nocookie)?\.com/embed/ | player\.vimeo\.com/video/ | vimeo\.com/event/
    | www\.dailymotion\.com/embed/ | geo\.dailymotion\.com/player | w\.soundcloud\.com/player/
    | bandcamp\.com/EmbeddedPlayer | open\.spotify\.com/embed | embed\.podcasts\.apple\.com/ | embed\.music\.apple\.com/
    | player\.twitch\.tv/ | clips\.twitch\.tv/embed | media\.ccc\.de/v/[\w.-]+/oembed | archive\.org/embed/
    | (?:www\.)?openstreetmap\.org/export/embed\.html | codepen\.io/[\w-]+/embed/ | embed\.ted\.com/talks/
    | player\.bilibili\.com/player\.html | rumble\.com/embed/ | (?:www\.|player-widget\.)?mixcloud\.com/widget/
    | widget\.deezer\.com/widget/ | embed\.tidal\.com/
    )"""
PLAYER = re.compile(_PLAYERS)
"""Matches the addresses that may be framed; steps upwards in the path would leave it."""

_BEACONS = r"""(?ix)//(?:
      pixel\.wp\.com | stats\.(?:wordpress|wp)\.com | feeds\.wordpress\.com/1\.0/ | [^/]*feedsportal\.com
    | feeds\.feedburner\.com/~ | [^/]*\.(?:doubleclick\.net|scorecardresearch\.com|quantserve\.com|google-analytics\.com
        |ioam\.de|met\.vgwort\.de|chartbeat\.net|list-manage\.com/track|statcounter\.com|goatcounter\.com/count
        |sendgrid\.net/wf/open|feedblitz\.com/(?:t|f)\.gif)
    | cpx\.golem\.de | medium\.com/_/stat | (?:www\.)?facebook\.com/tr\b | (?:www\.)?google-analytics\.com
    | pixel\.[^/]+/ | counter\.theconversation\.com | blogger\.googleusercontent\.com/tracker/ | ct\.pinterest\.com
    | px\.ads\.linkedin\.com | bat\.bing\.com | analytics\.twitter\.com | t\.co/i/adsct
    | tracking\.feedpress\.(?:it|com) | track(?:ing)?\.[^/]+/open | email\.[^/]+/o/ )
    | /(?:piwik|matomo)\.php | [?&]rss_tracking= | /b\.gif\? | /(?:tracking_?)?pixel\.(?:gif|png)"""
BEACON = re.compile(_BEACONS)
"""Found in the addresses of pictures that nobody is to see."""
