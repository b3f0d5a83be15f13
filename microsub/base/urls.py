"""Forms of URLs and host names for each purpose (https://url.spec.whatwg.org/, RFC 3986).

    web_parts           the parts of an http or https URL; `parts_of` of any URL. Bounded, as everything here is
    ascii_host          a host, for comparing, storing and requesting
    safe_url            a URL that a format may pass on
    web_address         a URL that people enter to follow, look up or show something
    canonical_feed_url  the key of a feed, in the store and in backend.json
    normalise_url       a post's URL, for comparing
    normalise_profile   a person's URL, in mutes, blocks and cards; `normalise_person` for one that people type
    mask_credentials    a URL that may be shown; `redacted`: one that may be logged
    with_sign_in        a feed's address that names sealed credentials (`feeds.sign_ins`) instead of having them

Comparison forms are keys and never shown. Identifiers of users, apps and servers have stricter rules:
`base.identifiers`. `fetch.targets` makes the form that is requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, wraps
from ipaddress import IPv6Address, ip_address
from itertools import takewhile
from socket import inet_aton, inet_ntoa
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

import idna

WEB = frozenset({"http", "https"})
LINK = frozenset({"http", "https", "mailto", "tel", "xmpp", "irc", "ircs", "gemini", "magnet", "geo", "sms", "matrix"})
MAX_URL = 4096
LONGEST_URL = 8192
"""Maximum characters of a URL that is parsed at all: some steps take time with their square."""
LONGEST_FOLLOWED = 2048
"""Maximum bytes, in UTF-8, of an address that people follow, mute or block."""

_SPLIT = (r"\s*".join(scheme) for scheme in ("javascript", "vbscript", "data", "livescript", "mocha", "blob"))
EXECUTABLE = re.compile(rf"(?i)[\W_]*(?:{'|'.join(_SPLIT)})\s*:")
"""Text that must not become a link, for fields that may contain a URL or anything else."""

# Browsers drop tabs and newlines inside a URL, and controls and spaces around it, so "java\nscript:" runs there.
_IGNORED = re.compile(r"[\t\n\r]")
_EDGES = "".join(map(chr, range(0x21))) + "\x7f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
_EDGES += "".join(map(chr, range(0x2000, 0x200C)))
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\"<>`\\^{|}\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SPACE = re.compile(r"\s")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\<>\"^`{|}]")
# URLs that differ from their comparison form by the scheme and a last slash at most.
_SIMPLE = re.compile(
    r"https?://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::(?!80/|443/)(?:[1-9][0-9]{1,3}|[1-5][0-9]{4}))?)"
    r"(/[!$&-.0-9@-Z_a-z~/]*)"
)
_SIMPLE_HOST = re.compile(r"https?://([a-z](?:[a-z0-9.-]*[a-z0-9])?)(?::[0-9]{1,5})?(?=[/?#]|\Z)")
_SHORT = 2048
# URLs without anything to repair or escape: nearly all.
_PLAIN = re.compile(r"https?://[A-Za-z0-9.-]*[A-Za-z0-9](?::(?:[0-9]{1,4}|[1-5][0-9]{4}))?[/?][!#-;=?-\[\]_a-z~]*")
# The same for a path from the root of the site or beside the page. Paths with dot segments, parameters or empty
# queries aren't plain: for these `urljoin` does more than append.
_PLAIN_PATH = re.compile(
    r"(?:/(?!/)|[A-Za-z0-9_-])[!$-.0-9=@-\[\]_a-z~/]*(?:\?[!$-;=@-\[\]_a-z~]+)?(?:#[!$-;=@-\[\]_a-z~]+)?"
)
# Characters that no host name contains, percent-encoded or not; browsers refuse most of them
# (https://url.spec.whatwg.org/#host-miscellaneous).
_NO_HOST = re.compile(r"[\x00-,/:-@\[-^`{-\x7f]")
_BEFORE_QUERY = re.compile(r"\A[^?#]*")  # where browsers take a backslash for a slash
_TOO_MANY_SLASHES = re.compile(r"(?i)(https?:)/{3,}")

_TRACKING = re.compile(
    r"(?i)(?:utm_\w*|pk_\w+|piwik_\w+|mtm_\w+|hsa_\w+|at_(?:medium|campaign|custom\d|link\w*)|fbclid|gclid|dclid|gbraid|wbraid"
    r"|msclkid|yclid|igshid|mc_[ce]id|_hs(?:enc|mi)|wt_(?:mc|zmc)|wt\.mc_\w+|xtor|ns_(?:mchannel|source|campaign|linkname|fee)"
    r"|vero_\w+|oly_\w+_id|wickedid|twclid|ttclid|li_fat_id|s_cid|cmpid|ftag|__twitter_impression)"
)
# Parameters that surely mean nothing to the page itself: comparing may leave out more than following.
_CAMPAIGN = re.compile(
    r"(?i)[?&#](?:amp;)?(?:utm_\w+|(?:pk|mtm|piwik)_(?:campaign|kwd|keyword|source|medium|content|cid|group|placement)"
    r"|fbclid|gclid|dclid|gbraid|wbraid|msclkid|yclid|igshid|igsh|mc_[ce]id|_hs(?:enc|mi)|wt_(?:mc|zmc)|wt\.mc_\w+|xtor"
    r"|vero_\w+|oly_\w+_id|wickedid|twclid|ttclid|li_fat_id|at_(?:medium|campaign)|__twitter_impression"
    r"|gclsrc|srsltid|_openstat|itm_\w+|campaign_(?:id|medium|name|source|term|content)|mkt_tok|sc_cid|_bhlid|ysclid|mc_tc"
    r"|fb_(?:action_ids|action_types|source|ref|comment_id)|hmb_(?:campaign|medium|source)|hsa_\w+|__hs(?:tc|sc|fp)"
    r"|hsctatracking|_branch_(?:match_id|referrer)|ref_src|ref_url|source(?==rss-[\w-]*(?:&|#|\Z)))(?==|&|#|\Z)"
)
# Addresses that only lead to the one in their query, by host and path; the query's name.
_REDIRECTS = re.compile(
    r"(?i)https?://(?:(?:www\.)?google\.[a-z.]{2,6}/url\?(?:[^#]*&)?(?:url|q)"
    r"|(?:l|lm|www)\.facebook\.com/l\.php\?(?:[^#]*&)?u|l\.instagram\.com/\?(?:[^#]*&)?u"
    r"|(?:www\.)?youtube\.com/redirect\?(?:[^#]*&)?q|duckduckgo\.com/l/\?(?:[^#]*&)?uddg"
    r"|slack-redir\.net/link\?(?:[^#]*&)?url|out\.reddit\.com/[^?#]*\?(?:[^#]*&)?url"
    r"|(?:m\.)?vk\.com/away(?:\.php)?\?(?:[^#]*&)?to|steamcommunity\.com/linkfilter/?\?(?:[^#]*&)?(?:url|u)"
    r")=(https?(?::|%3a)[^&#]+)"
)
_BEFORE_ADDRESS = re.compile(r"(?i)https?://(?:www\.)?href\.li/\?(?=https?://)")
"""A service that hides the origin of a link, before the unchanged address."""
_TRACKING_FRAGMENT = re.compile(
    r"(?i)(?:utm_\w+|xtor|ref|src|rss|sc|at_\w+|mc_[ce]id|ns_\w+|ftag)(?:=.*)?\Z|.*[?&]?utm_\w+="
)
_SECRET = re.compile(
    r"(?i)(?:(?:.*[_-])?(?:token|secret|password|passwd|pass|pwd|api_?key|apikey|auth|key|sig|signature|credentials?|session|"
    r"verifier|assertion)|code|again|authorization|headers|cookie)\Z"
)
"""Names of secret parameters, in addresses and in requests."""

_PUBLIC = re.compile(
    r"(?i)(?:feed|format|output|alt|type|post_type|lang|locale|page|paged|p|limit|count|n|cat|category|tag|tags|label|topic|author|user"
    r"|channel|channel_id|playlist_id|list|q|s|search|query|sort|order|section|v|version|rss|atom|xml|json|action)"
)
"""Names of parameters with public values; the values of all others may be secret."""
_PLACE = re.compile(r"[^/?#]*/[\t\n\r]*/[^/?#]*")
_BEGIN = re.compile(r"(?i)https?://[^/?#\\\s]{1,253}(?=[/?#])")
_PARTS = re.compile(r"((?:https?|feed)://[^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE | re.DOTALL)
_PARAMETER = re.compile(r"([?&;])([^=&;?]*)(?:=([^&;?]*))?")
_ADDRESS = re.compile(r"(?i)(?:https?|feed)://[^\s\"<>\\]+")
# The same percent-encoded inside another address, perhaps more than once.
_ENCODED = re.compile(r"(?i)(?:https?|feed)%(?:25)*3a(?:%(?:25)*2f){2}[^\s\"<>\\]+")
_MOST_ENCODED = 3
_INNER_USER = re.compile(r"(?i)((?:https?|feed):/{1,2})[^/?#&\s]*@")
"""User and password of an address inside another one."""
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WORDS = re.compile(r"[^0-9A-Za-z]+")
_DIGIT_TURNS = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_CASE_TURNS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TURNS = re.compile(  # of small letters, capitals and digits, but for the capital before small ones
    r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[0-9A-Z][A-Z])(?=[a-z])"
)
_ENDING = re.compile(r"\.[a-z]{2,5}\Z")

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"%([0-9A-Fa-f]{2})")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")

_LONGEST_HOST, _LONGEST_LABEL = 253, 63
"""Characters of a host's name and its parts (RFC 1035, 2.3.4). IDNA takes time with the square of their number."""

_NUMBERS = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){0,3}")
_HOST_HEADER = re.compile(r"(?:\[(?P<v6>[0-9a-f.]*:[0-9a-f:.]*)\]|(?P<name>[0-9a-z.]+))(?::(?P<port>[0-9]{1,5}))?")
"""A valid Host header (RFC 9110, section 7.2): a name, optionally followed by a port."""
_JOINERS = re.compile("[\u200c\u200d]")


def ascii_host(host: str) -> str:
    """The one form of a host: lower case, ASCII, no dot at the end, IPv6 in its shortest form and without brackets.

    IDNA 2008 with the mapping of UTS 46, as in browsers (`straße` isn't `strasse`); IDNA 2003 for names that it
    refuses, such as emoji. A name that neither can express stays as it is, in lower case. So does a host that is too
    long, and one with joiners without effect, which IDNA 2003 would remove and browsers refuse.
    """
    host = host.lower().rstrip(".")
    if host.isascii():
        if ":" in host:
            with suppress(ValueError):
                return ipv6_text(IPv6Address(host))
        return host
    if len(host) > _LONGEST_HOST or max(map(len, host.split("."))) > _LONGEST_LABEL:
        return host
    return _by_idna(host)


def ipv6_text(address: IPv6Address) -> str:
    """The shortest form, as browsers write it: `::ffff:102:304`. Python writes `::ffff:1.2.3.4` from 3.13 on."""
    if (mapped := address.ipv4_mapped) is None:
        return str(address)
    return "::ffff:{:x}:{:x}".format(*divmod(int(mapped), 1 << 16))


def asked_host(host: str) -> str:
    """`ascii_host`, with an IPv4 address in the form to which programs connect.

    `127.1`, `0x7f.0.0.1`, `2130706433` and `::ffff:127.0.0.1` are one.
    """
    host = ascii_host(host)
    if host.startswith("::ffff:"):
        with suppress(ValueError):
            return str(IPv6Address(host).ipv4_mapped or host)
    if _NUMBERS.fullmatch(host):
        with suppress(OSError):
            return inet_ntoa(inet_aton(host))
    return host


@lru_cache(maxsize=16_384)
def _by_idna(host: str) -> str:
    """`ascii_host` of a name in Unicode. Cached: a long name takes half a millisecond."""
    with suppress(UnicodeError):  # IDNAError is a subclass
        return idna.encode(host, uts46=True).decode("ascii").rstrip(".")
    with suppress(UnicodeError):
        if not _JOINERS.search(host):
            return host.encode("idna").decode("ascii").lower().rstrip(".")
    return host


def parts_of(url: str) -> SplitResult:
    """The parts of `url`. Raises ValueError for invalid URLs and for long ones (`_is_too_long`)."""
    if _is_too_long(url):
        raise ValueError(f"longer than {LONGEST_URL} characters, or with a host that is too long")
    return urlsplit(url)


def _is_too_long(url: str) -> bool:
    """Whether `url` has too many characters for an address, or its Unicode host for a host.

    `urlsplit` normalises such a host, which takes time with the square of its length.
    """
    if len(url) > LONGEST_URL:
        return True
    place = None if url.isascii() else _PLACE.match(url)
    return place is not None and len(place[0]) > 4 * _LONGEST_HOST and not place[0].isascii()


def is_loopback(host: str) -> bool:
    """Whether a `Host` header names this machine: `localhost`, 127.0.0.0/8 or [::1]."""
    found = _HOST_HEADER.fullmatch(host.lower())
    if found is None or int(found["port"] or 0) > 65535:
        return False
    try:
        return found["name"] == "localhost" or ip_address(found["name"] or found["v6"]).is_loopback
    except ValueError:
        return False


def is_usable(url: str) -> bool:
    """Whether `url` is an absolute http or https URL that can be requested."""
    return not re.search(r"[\x00-\x20\x7f]", url) and url == url.strip(_EDGES) and web_parts(url) is not None


def web_address(text: str) -> str | None:
    """The absolute http or https URL in `text`, without white space around it; None for anything else.

    A `feed:` URL counts as the URL inside it.
    """
    url = text.strip()
    if url[:5].lower() == "feed:":
        url = url[5:]
        if url.startswith("//"):
            url = "http:" + url
    short = len(url.encode(errors="replace")) <= LONGEST_FOLLOWED
    return url if short and not _UNSAFE.search(url) and is_usable(url) else None


def domain(text: str) -> str | None:
    """A domain in comparison form (`ascii_host`), else None.

    Single labels are refused, because `com` would mean everybody there; so are IP addresses, wildcards and URLs.
    """
    name = ascii_host(text.strip()) if not text.strip().endswith("..") else ""
    labels = name.split(".")
    if len(name) > 253 or len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    return None if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", labels[-1]) else name


def within(host: str, name: str) -> bool:
    """Whether `host` is the domain `name` or below it; both as `domain` writes them.

    `notann.example` isn't within `ann.example`.
    """
    return host == name or host.endswith(f".{name}")


def safe_url(value: str | None, base: str = "", schemes: frozenset[str] = WEB) -> str | None:
    """`value` resolved against `base`; None if that isn't an absolute URL with one of `schemes`.

    White space around it, line breaks and blanks are repaired first, as browsers do, so that nothing becomes executable
    after the check.
    """
    if not value:
        return None
    if _PLAIN.fullmatch(value) and len(value) <= MAX_URL:
        return value
    if _PLAIN_PATH.fullmatch(value) and "/." not in value and "//" not in value and len(value) <= MAX_URL:
        beside, root = _stems(base)
        if beside:
            return (root if value[0] == "/" else beside) + value
    url = trimmed(value)
    if not url or len(url) > MAX_URL:
        return None
    url = _TOO_MANY_SLASHES.sub(r"\1//", url)
    try:
        if "\\" in url:
            url = _BEFORE_QUERY.sub(lambda found: found[0].replace("\\", "/"), url)
        if not url.lower().startswith(("http://", "https://")):
            url = urljoin(base, url)
        scheme, colon, rest = url.partition(":")
        scheme = scheme.lower()
        if not colon or scheme not in schemes:
            return None
        if scheme in WEB and not (rest.startswith("//") and _leads_somewhere(url)):
            return None
        if scheme in WEB and "/" not in rest[2:] and "?" not in rest and "#" not in rest:
            url += "/"  # `https://a.example` and `https://a.example/` are one address
    except ValueError:
        return None
    if _FORBIDDEN.search(url) or _SPACE.search(url):
        url = _FORBIDDEN.sub(_escape, _SPACE.sub("%20", url))
    return url


def trimmed(url: str) -> str:
    """`url` as browsers read it: without white space and controls around it, and line breaks and tabs inside.

    Blanks inside stay.
    """
    return _IGNORED.sub("", url.strip(_EDGES))


@lru_cache(maxsize=256)
def _stems(base: str) -> tuple[str, str]:
    """The beginnings of paths beside `base` and from its root; empty if `base` isn't plain."""
    if not _PLAIN.fullmatch(base) or len(base) > MAX_URL:
        return "", ""
    return urljoin(base, "x")[:-1], urljoin(base, "/x")[:-2]


def _leads_somewhere(url: str) -> bool:
    """Whether browsers accept the host and port. Raises ValueError for some that they don't."""
    parts = parts_of(url)
    host = unquote(parts.hostname or "").strip(".")
    _ = parts.port
    return bool(host) and ("[" in parts.netloc or not _NO_HOST.search(host))


def _escape(match: re.Match[str]) -> str:
    return quote(match[0], safe="", errors="replace")


def without_tracking(url: str) -> str:
    """`url` without the parameters of campaigns and social networks."""
    if ("?" not in url and "#" not in url and "&" not in url) or not _CAMPAIGN.search(url):
        return url
    rest, mark, fragment = url.partition("#")
    path, _, query = rest.partition("?")
    kept = "&".join(pair for pair in query.split("&") if not _CAMPAIGN.match(f"&{pair}"))
    fragment = "" if _CAMPAIGN.match(f"#{fragment}") else mark + fragment
    return f"{path}?{kept}{fragment}" if kept else path + fragment


def without_redirect(url: str) -> str:
    """The address that a search engine's or network's link leads to by way of its own counter."""
    if "href.li/?" in url and (before := _BEFORE_ADDRESS.match(url)):
        return safe_url(url[before.end() :]) or url
    found = _REDIRECTS.match(url) if "=http" in url else None
    return url if found is None else safe_url(unquote(found[1])) or url


def without_referrer(url: str, page: str) -> str:
    """`url` without the name of the site on which it is, `page`'s, which some publishers add to each link (`ref=`)."""
    host = host_of(page).removeprefix("www.") if "ref=" in url else ""
    if not host or f"ref={host}" not in url:
        return url
    return re.sub(rf"(?<=[?&])ref={re.escape(host)}(?:&|(?=#|\Z))", "", url).replace("?#", "#").rstrip("?&")


def without_secrets(url: str) -> str:
    """`url` without parameters that hold a secret, by their names or because their values look random."""
    rest, mark, fragment = url.partition("#")
    path, _, query = rest.partition("?")
    kept = "&".join(pair for pair in query.split("&") if not _holds_secret(pair))
    return f"{path}?{kept}{mark}{fragment}" if kept else f"{path}{mark}{fragment}"


def without_secret_path(url: str) -> str:
    """`url` without the first part of its path that looks random and everything after it."""
    found = _PARTS.fullmatch(url)
    if found is None:
        return url
    kept = list(takewhile(lambda part: not _looks_random(unquote(part)), found[2].split("/")))
    path = "/".join(kept)
    return url if path == found[2] else f"{found[1]}{path}/"


def _holds_secret(pair: str) -> bool:
    name, _, value = map(unquote, pair.partition("="))
    return is_secret_name(name) or (not _PUBLIC.fullmatch(name) and _looks_random(value or name))


def _remembering(form: Callable[[str], str]) -> Callable[[str], str]:
    """`form`, memoised: the addresses of a post and its author occur many times."""
    known = lru_cache(maxsize=1024)(form)
    return wraps(form)(lambda url: known(url) if len(url) <= _SHORT else form(url))


@_remembering
def normalise_url(url: str) -> str:
    """The comparison form of a post's URL.

    http and https, tracking parameters and trailing junk make no difference. Other text than an http(s) URL is only
    stripped.
    """
    if len(url) <= _SHORT and (simple := _SIMPLE.fullmatch(url)) is not None:
        return f"https://{simple[1]}{simple[2].rstrip('/') or '/'}"
    parts = web_parts(url)
    if parts is None:
        return url.strip(_EDGES)
    kept = [p for p in parts.query.split("&") if p.strip(_EDGES) and not _TRACKING.fullmatch(p.partition("=")[0])]
    fragment = "" if _TRACKING_FRAGMENT.match(parts.fragment) else parts.fragment.rstrip(_EDGES)
    path = parts.path
    if "%" in path and not _BROKEN_ESCAPE.search(path):
        path = _UNRESERVED.sub(_decode_unreserved, path)
    path = path.rstrip("/" + _EDGES) or "/"
    return urlunsplit(("https", _netloc(parts, "http", "https"), path, "&".join(kept).rstrip(_EDGES), fragment))


@_remembering
def normalise_profile(url: str) -> str:
    """The comparison form of a profile or feed URL in mutes and blocks; `www.`, query and fragment count."""
    parts = web_parts(url)
    if parts is None:
        return url.strip(_EDGES)
    netloc = _netloc(parts, "http", "https")
    path = parts.path.rstrip("/" + _EDGES) or "/"
    return urlunsplit(("https", netloc, path, parts.query.rstrip(_EDGES), parts.fragment.rstrip(_EDGES)))


def normalise_person(me: str) -> str:
    """`normalise_profile` of an address that somebody typed: without a scheme it is https."""
    return normalise_profile(me if "://" in me else f"https://{me.strip()}")


def canonical_feed_url(url: str) -> str:
    """The key of a feed: case of scheme and host, default port, IDN and fragment make no difference.

    The scheme stays (http and https may serve different feeds); a `feed:` URL becomes the URL inside it.
    """
    text = trimmed(url)
    if text[:5].lower() == "feed:":
        text = text[5:] if text[5:12].lower().startswith(("http:", "https:")) else "http://" + text[5:].lstrip("/")
    parts = web_parts(text)
    if parts is None:
        return text
    path = parts.path.rstrip(_EDGES) or "/"
    if not path.isascii() or " " in path:
        path = quote(path, safe="/%:@!$&'()*+,;=~-._", errors="replace")
    query = parts.query.rstrip(_EDGES)
    if not query.isascii() or " " in query:
        query = quote(query, safe="/?%:@!$&'()*+,;=~-._[]", errors="replace")
    scheme = parts.scheme.lower()
    return urlunsplit((scheme, _netloc(parts, scheme), path, query, ""))


def mask_credentials(url: str) -> str:
    """`url` for pages: user, password and parameters with secret names become `***`.

    Of a text too long for a URL only the host stays, if no password can stand before it.
    """
    if _is_too_long(url):
        begin = None if "@" in url else _BEGIN.match(url)
        return f"{begin[0]}/***" if begin else "***"
    try:
        parts = urlsplit(url)
    except ValueError:
        return re.sub(r"//[^/@]*@", "//***@", url)
    netloc = "***@" + parts.netloc.rpartition("@")[2] if "@" in parts.netloc else parts.netloc
    query = "&".join(map(_mask_parameter, parts.query.split("&"))) if parts.query else ""
    if netloc == parts.netloc and query == parts.query:
        return url
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def redacted(url: str) -> str:
    """`url` for logs and other programs: `mask_credentials`, and without values that may be secrets.

    A parameter's value is shown if its name is one of public parameters, such as a page or a channel. A part of the
    path is hidden if it looks random. Scheme, host, names and words stay, so that people recognise the address.
    """
    url = mask_credentials(url)
    match = _PARTS.fullmatch(url)
    if match is None:
        return _encoded_redacted(url)
    place, path, query, fragment = match.groups()
    path = "/".join(map(_redacted_segment, path.split("/")))
    query = _PARAMETER.sub(_redacted_parameter, query or "")
    behind = f"{path}{query}{'#***' if fragment and '=' in fragment else fragment or ''}"
    return place + _encoded_redacted(_INNER_USER.sub(r"\1***@", behind))


def redacted_text(text: str) -> str:
    """`text` with every address of the web or of a feed (`feed:`) in it `redacted`, percent-encoded ones too."""
    return _encoded_redacted(_ADDRESS.sub(_redacted_address, text) if "://" in text else text)


def _encoded_redacted(text: str) -> str:
    return _ENCODED.sub(_redacted_encoded, text) if "%" in text else text


def _redacted_encoded(found: re.Match[str]) -> str:
    plain, times = found[0], 0
    while _ENCODED.search(plain):
        if times == _MOST_ENCODED:
            return "***"
        plain, times = unquote(plain), times + 1
    shown = redacted_text(plain)
    if shown == plain:
        return found[0]
    for _ in range(times):
        shown = quote(shown, safe="*")
    return shown


def _redacted_address(found: re.Match[str]) -> str:
    address = found[0].rstrip("',.;:)")  # punctuation after an address in a text, which may be inside one too
    return redacted(address) + found[0][len(address) :]


def _redacted_parameter(match: re.Match[str]) -> str:
    mark, name, value = match.groups()
    if _PUBLIC.fullmatch(name) or not (name or value) or value == "":
        return match[0]
    return f"{mark}***" if value is None else f"{mark}{name}=***"


def _redacted_segment(segment: str) -> str:
    segment, mark, parameters = segment.partition(";")
    segment += _PARAMETER.sub(_redacted_parameter, mark + parameters)
    text = unquote(segment)
    if not _looks_random(text):
        return segment
    ending = _ENDING.search(text)
    return f"***{ending[0]}" if ending else "***"


def _looks_random(text: str) -> bool:
    """Whether `text` looks like a random identifier.

    That is a UUID, a word that often changes between letters and digits or between small letters and capitals, or a
    long text with many such changes: fewer than one in a hundred random texts of 22 base64url characters has fewer.
    """
    if _UUID.search(text) is not None or (len(text) >= 16 and len(_TURNS.findall(text)) > max(4, len(text) // 5)):
        return True
    return any(
        len(word) >= 8 and (len(_DIGIT_TURNS.findall(word)) > 2 or len(_CASE_TURNS.findall(word)) > len(word) // 5)
        for word in _WORDS.split(text)
    )


def is_secret_name(name: str) -> bool:
    """Whether a parameter's name says that its value is secret."""
    return _SECRET.match(name) is not None


def _mask_parameter(pair: str) -> str:
    name, equals, value = pair.partition("=")
    return f"{name}=***" if equals and value and is_secret_name(name) else pair


_SIGN_IN = re.compile(r"~([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{22})")


def named_sign_in(userinfo: str) -> tuple[str, str] | None:
    """The user and the id of the sign-in that the user info of an address names; None if it has plain credentials."""
    found = _SIGN_IN.fullmatch(userinfo)
    return (found[1], found[2]) if found is not None else None


def sign_in_of(url: str) -> tuple[str, str] | None:
    """The user and the id of the sign-in that `url` names, or None."""
    parts = web_parts(url) if "@" in url else None
    return None if parts is None else named_sign_in(parts.netloc.rpartition("@")[0])


def with_sign_in(url: str, user: str, name: str) -> str:
    """`url` with the id of a sign-in of `user` instead of the credentials that it may have."""
    return _with_userinfo(url, f"~{user}.{name}@")


def without_sign_in(url: str) -> str:
    """`url` without the sign-in that it names; plain credentials stay."""
    return _with_userinfo(url, "") if sign_in_of(url) is not None else url


def without_credentials(url: str, instead: str = "") -> str:
    """`url` with `instead` for its user info, if it has any: credentials, or the sign-in that it names."""
    parts = web_parts(url)
    if parts is None or "@" not in parts.netloc:
        return url
    return _with_userinfo(url, f"{instead}@" if instead else "")


def with_password(url: str, name: str, password: str) -> str:
    """`url` with a user name and a password instead of the credentials that it may have."""
    return _with_userinfo(url, f"{quote(name, safe='')}:{quote(password, safe='')}@")


def password_of(url: str) -> tuple[str, str] | None:
    """The user name and the password in `url`, or None: also for one that names a sign-in."""
    parts = web_parts(url) if "@" in url else None
    user = parts.netloc.rpartition("@")[0] if parts is not None else ""
    if not user or named_sign_in(user):
        return None
    name, _, password = user.partition(":")
    return unquote(name), unquote(password)


def _with_userinfo(url: str, userinfo: str) -> str:
    parts = web_parts(url)
    if parts is None:
        return url
    return urlunsplit(parts._replace(netloc=userinfo + parts.netloc.rpartition("@")[2]))


def with_credentials_of(url: str, other: str) -> str:
    """`other` with the credentials of `url`, if it has none and the same origin, or its https form.

    A sign-in holds for its very origin only; one that a publisher names in `other` is dropped.
    """
    other = without_sign_in(other)
    ours, theirs = web_parts(url), web_parts(other)
    if ours is None or theirs is None or "@" not in ours.netloc or "@" in theirs.netloc:
        return other
    user = ours.netloc.rpartition("@")[0]
    if ours.scheme == "http" and theirs.scheme == "https" and ours.port is theirs.port is None:
        ours = ours if named_sign_in(user) else ours._replace(scheme="https")
    same = ours.scheme == theirs.scheme and _netloc(ours, ours.scheme) == f"{user}@{_netloc(theirs, theirs.scheme)}"
    return urlunsplit(theirs._replace(netloc=f"{user}@{theirs.netloc}")) if same else other


def has_credentials(url: str) -> bool:
    """Whether `url` contains something that `mask_credentials` hides."""
    return mask_credentials(url) != url


def host_of(url: str) -> str:
    """The host in comparison form (`asked_host`, without port); `""` if there is none."""
    if (simple := _SIMPLE_HOST.match(url)) is not None:
        return simple[1]
    try:
        return asked_host(parts_of(url.strip()).hostname or "")
    except ValueError:
        return ""


def web_parts(url: str) -> SplitResult | None:
    """The parts of an http or https URL with a host, with or without white space around it; else None."""
    try:
        parts = parts_of(url.strip(_EDGES))
        if parts.scheme.lower() not in WEB or not (parts.hostname or "").strip("."):
            return None
        _ = parts.port
    except ValueError:
        return None
    return parts


def _netloc(parts: SplitResult, *schemes: str) -> str:
    """User info, host and port, without the default ports of `schemes`."""
    user, at, _ = parts.netloc.rpartition("@")
    host = ascii_host(parts.hostname or "")
    if ":" in host:
        host = f"[{host}]"
    default = {80 if scheme == "http" else 443 for scheme in schemes}
    port = f":{parts.port}" if parts.port is not None and parts.port not in default else ""
    return f"{user}{at}{host}{port}"


def _decode_unreserved(match: re.Match[str]) -> str:
    """RFC 3986, 6.2.2.2: `%7E` and `~` are the same; other escapes differ only by the case of their digits."""
    char = chr(int(match[1], 16))
    return char if char.isascii() and (char.isalnum() or char in "-._~") else match[0].upper()
