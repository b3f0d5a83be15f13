"""Where well-known sites and programs keep the feeds of a page that doesn't name them, or not all of them: data.

A row holds host and path of the page, what must stand on the page, and the addresses that follow from both. Each has
its document in `tests/data/discovery`; `formats.sites` reads the table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feed:
    """An address with the named groups of the row's patterns in braces, and `{origin}`; `title` alike."""

    url: str
    format: str = "rss"
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A pattern in an attribute of the elements that `selector` finds, or, without them, anywhere in the page's source.

    Elements rather than one pattern over tags: that would take time with the square of a hostile page's length.
    """

    pattern: str
    selector: str = ""
    attribute: str = "content"


@dataclass(frozen=True, slots=True)
class Site:
    """Pages whose host, and whose path with query, match from beginning to end.

    With `page`, one of these marks must be found on the page, the first of them that is; without, the page needn't be
    read at all.
    """

    name: str
    host: str
    path: str
    feeds: tuple[Feed, ...]
    page: tuple[Mark, ...] = ()


_ANY = r".+"
_END = r"/?(?:\?.*)?"
_GITHUB_USER = (
    r"(?!(?:about|collections|explore|features|login|marketplace|orgs|pricing|search|settings|sponsors|topics"
    r"|trending)\b)"
)
_GITHUB_REPO = r"(?P<repo>[\w-]+/[\w.-]+?)"
_REDDIT = r"(?:(?:www|old|new|np|m)\.)?reddit\.com"
_YOUTUBE = r"(?:(?:www|m)\.)?youtube\.com"
_CHANNEL_FEED = Feed("https://www.youtube.com/feeds/videos.xml?channel_id={channel}", "atom")


def _generator(name: str) -> Mark:
    """The program that calls itself so."""
    return Mark(rf"(?i)\A{name}\b", "meta[name=generator]")


def _github(what: str) -> Feed:
    """One of a repository's feeds."""
    return Feed(f"https://github.com/{{repo}}/{what}.atom", "atom", f"{{repo}}: {what}")


_FORGEJO = (Mark(r"(?i)(?:\A|,)(?:forgejo|gitea)(?:,|\Z)", "meta[name=keywords]"),)
_MASTODON = (Mark("", "#mastodon", "id"), Mark("", "script#initial-state", "id"), _generator("Mastodon"))
_DISCOURSE = _generator("Discourse")

SITES = (
    Site(
        "youtube playlist",
        _YOUTUBE,
        r"/(?:playlist|watch)\?(?:.*&)?list=(?P<list>(?:PL|UU|FL|OL)[\w-]+).*",
        (Feed("https://www.youtube.com/feeds/videos.xml?playlist_id={list}", "atom"),),
    ),
    Site("youtube channel", _YOUTUBE, r"/channel/(?P<channel>UC[\w-]{22})(?:[/?].*)?", (_CHANNEL_FEED,)),
    # Of the many channels that a page may mention its own is the canonical link's, or the first.
    Site(
        "youtube handle",
        _YOUTUBE,
        r"/(?:@|c/|user/|watch\?|shorts/|live/|[\w.-]+/?\Z).*",
        (_CHANNEL_FEED,),
        (
            Mark(r"/channel/(?P<channel>UC[\w-]{22})", "link[rel=canonical]", "href"),
            Mark(r"(?P<channel>UC[\w-]{22})", "meta[itemprop=identifier], meta[itemprop=channelId]"),
            Mark(r"\"externalId\"\s*:\s*\"(?P<channel>UC[\w-]{22})\""),
            Mark(r"\"channelId\"\s*:\s*\"(?P<channel>UC[\w-]{22})\""),
        ),
    ),
    Site(
        "bluesky",
        r"bsky\.app",
        rf"/profile/(?P<who>[\w.:%-]+)(?:/post/\w+)?{_END}",
        (Feed("https://bsky.app/profile/{who}/rss"),),
    ),
    Site(
        "reddit listing",
        _REDDIT,
        r"(?P<path>/r/[\w+]+(?:/(?:hot|new|top|rising|controversial))?)/?(?P<query>\?[^#]*)?",
        (Feed("https://www.reddit.com{path}/.rss{query}", "atom"),),
    ),
    Site(
        "reddit multireddit",
        _REDDIT,
        rf"/user/(?P<who>[\w-]+)/m/(?P<multi>\w+){_END}",
        (Feed("https://www.reddit.com/user/{who}/m/{multi}/.rss", "atom"),),
    ),
    Site("reddit", _REDDIT, rf"{_END}", (Feed("https://www.reddit.com/.rss", "atom"),)),
    Site(
        "reddit user",
        _REDDIT,
        rf"/u(?:ser)?/(?P<who>[\w-]+)(?P<part>/submitted|/comments)?{_END}",
        (Feed("https://www.reddit.com/user/{who}{part}/.rss", "atom"),),
    ),
    Site(
        "reddit post",
        _REDDIT,
        rf"(?P<path>/r/\w+/comments/\w+(?:/[^/?#]+)?){_END}",
        (Feed("https://www.reddit.com{path}/.rss", "atom"),),
    ),
    # What the page is about first; the repository's row adds the others.
    Site("github tags", r"github\.com", rf"/{_GITHUB_USER}{_GITHUB_REPO}/tags{_END}", (_github("tags"),)),
    Site(
        "github branch",
        r"github\.com",
        rf"/{_GITHUB_USER}{_GITHUB_REPO}/commits/(?P<branch>[^?#]+?){_END}",
        (Feed("https://github.com/{repo}/commits/{branch}.atom", "atom", "{repo}: commits of {branch}"),),
    ),
    Site("github commits", r"github\.com", rf"/{_GITHUB_USER}{_GITHUB_REPO}/commits{_END}", (_github("commits"),)),
    Site("github wiki", r"github\.com", rf"/{_GITHUB_USER}{_GITHUB_REPO}/wiki(?:/.*)?{_END}", (_github("wiki"),)),
    Site(
        "github discussions",
        r"github\.com",
        rf"/{_GITHUB_USER}{_GITHUB_REPO}/discussions(?:/.*)?{_END}",
        (_github("discussions"),),
    ),
    Site(
        "github repository",
        r"github\.com",
        rf"/{_GITHUB_USER}{_GITHUB_REPO}(?:\.git)?"
        rf"(?:/(?:releases|tags|commits|tree|blob|wiki|discussions|issues|pulls)\b.*)?{_END}",
        (_github("releases"), _github("commits"), _github("tags")),
    ),
    Site(
        "github user",
        r"github\.com",
        rf"/{_GITHUB_USER}(?P<who>[\w-]+){_END}",
        (Feed("https://github.com/{who}.atom", "atom", "{who} on GitHub"),),
    ),
    Site(
        "gitlab project",
        r"gitlab\.com",
        rf"/(?!(?:explore|users|help|search)\b)(?P<repo>[\w.-]+/[\w./-]+?)(?:/-/.*)?{_END}",
        (
            Feed("https://gitlab.com/{repo}/-/tags?format=atom", "atom", "{repo}: tags"),
            Feed("https://gitlab.com/{repo}.atom", "atom", "{repo}: activity"),
        ),
    ),
    Site(
        "gitlab user or group",
        r"gitlab\.com",
        rf"/(?!(?:explore|users|help|search|dashboard|projects|groups)\b)(?P<who>[\w.-]+){_END}",
        (Feed("https://gitlab.com/{who}.atom", "atom", "{who} on GitLab"),),
    ),
    Site(
        "gist",
        r"gist\.github\.com",
        rf"/(?P<who>[\w-]+)(?:/.*)?{_END}",
        (Feed("https://gist.github.com/{who}.atom", "atom"),),
    ),
    Site(
        "apple podcasts",
        r"(?:podcasts|itunes)\.apple\.com",
        r".*/id\d+.*",
        (Feed("{address}"),),
        (
            Mark(r"\"feedUrl\"\s*:\s*\"(?P<address>https?:[^\"\s<]{1,2000})\""),
            Mark(r"&quot;feedUrl&quot;\s*:\s*&quot;(?P<address>https?:[^\"\s<]{1,2000}?)&quot;"),
        ),
    ),
    Site(
        "soundcloud",
        r"(?:(?:www|m)\.)?soundcloud\.com",
        rf"/[\w-]+(?:/tracks)?{_END}",
        (Feed("https://feeds.soundcloud.com/users/soundcloud:users:{who}/sounds.rss"),),
        (Mark(r"soundcloud://users:(?P<who>\d+)"),),
    ),
    Site(
        "vimeo",
        r"(?:www\.)?vimeo\.com",
        rf"/(?!\d+\b)(?P<who>[\w-]+)(?:/videos)?{_END}",
        (Feed("https://vimeo.com/{who}/videos/rss"),),
    ),
    Site(
        "tumblr tag",
        r"(?!www\.)(?P<blog>[\w-]+)\.tumblr\.com",
        rf"/tagged/(?P<tag>[^/?#]+){_END}",
        (Feed("https://{blog}.tumblr.com/tagged/{tag}/rss"),),
    ),
    Site(
        "tumblr blog", r"(?!www\.)(?P<blog>[\w-]+)\.tumblr\.com", rf"{_END}", (Feed("https://{blog}.tumblr.com/rss"),)
    ),
    Site(
        "tumblr",
        r"(?:www\.)?tumblr\.com",
        rf"/(?!(?:tagged|dashboard|explore|search|login)\b)(?:blog/(?:view/)?)?"
        rf"(?P<blog>[\w-]+)(?:/.*)?{_END}",
        (Feed("https://{blog}.tumblr.com/rss"),),
    ),
    Site(
        "medium tag",
        r"(?:www\.)?medium\.com",
        rf"/tag/(?P<tag>[\w-]+)(?:/.*)?{_END}",
        (Feed("https://medium.com/feed/tag/{tag}"),),
    ),
    Site(
        "medium",
        r"(?:www\.)?medium\.com",
        rf"/(?!(?:feed|m|me|search|plans|about|tag)(?:/|\Z))(?P<who>@?[\w.-]+)(?:/.*)?{_END}",
        (Feed("https://medium.com/feed/{who}"),),
    ),
    Site(
        "medium blog",
        r"(?!www\.|help\.|policy\.)(?P<who>[\w-]+)\.medium\.com",
        r".*",
        (Feed("https://{who}.medium.com/feed"),),
    ),
    Site(
        "substack",
        r"(?!www\.|open\.|support\.)(?P<who>[\w-]+)\.substack\.com",
        r".*",
        (Feed("https://{who}.substack.com/feed"),),
    ),
    Site(
        "substack handle",
        r"(?:www\.)?substack\.com",
        rf"/@(?P<who>[\w-]+)(?:/.*)?{_END}",
        (Feed("https://{blog}.substack.com/feed"),),
        (Mark(r"\\?\"subdomain\\?\"\s*:\s*\\?\"(?P<blog>[\w-]+)"),),
    ),
    Site("wordpress.com", r"(?P<blog>[\w-]+)\.wordpress\.com", r".*", (Feed("https://{blog}.wordpress.com/feed/"),)),
    Site(
        "blogger", r"(?P<host>[\w-]+\.blogspot\.[a-z.]+)", r".*", (Feed("https://{host}/feeds/posts/default", "atom"),)
    ),
    Site(
        "dev.to", r"dev\.to", rf"/(?!(?:t|tags|search|about)\b)(?P<who>\w+){_END}", (Feed("https://dev.to/feed/{who}"),)
    ),
    Site(
        "letterboxd",
        r"(?:www\.)?letterboxd\.com",
        rf"/(?!(?:film|films|lists|members|journal)\b)(?P<who>\w+){_END}",
        (Feed("https://letterboxd.com/{who}/rss/"),),
    ),
    # Programs that run on hosts of any name.
    Site(
        "mastodon",
        _ANY,
        rf"/(?:@|users/)(?P<who>\w+)(?:/with_replies|/media|/(?:statuses/)?\d+)?{_END}",
        (Feed("{origin}/@{who}.rss"),),
        _MASTODON,
    ),
    Site(
        "mastodon, tag of a profile",
        _ANY,
        rf"/@(?P<who>\w+)/tagged/(?P<tag>[^/?#]+){_END}",
        (Feed("{origin}/@{who}/tagged/{tag}.rss"),),
        _MASTODON,
    ),
    # Somebody of another server, whose feed is there.
    Site(
        "mastodon, a remote profile",
        _ANY,
        rf"/@(?P<who>\w+)@(?P<home>[\w-]+(?:\.[\w-]+)+)(?:/.*)?{_END}",
        (Feed("https://{home}/@{who}.rss"),),
        _MASTODON,
    ),
    Site("mastodon tag", _ANY, rf"/tags/(?P<tag>[^/?#]+){_END}", (Feed("{origin}/tags/{tag}.rss"),), _MASTODON),
    Site(
        "pleroma",
        _ANY,
        rf"/(?:@|users/)?(?P<who>[\w.-]+){_END}",
        (Feed("{origin}/users/{who}/feed.atom", "atom"),),
        (Mark("", "script#initial-results", "id"), _generator("(?:Pleroma|Akkoma)")),
    ),
    Site(
        "gotosocial", _ANY, rf"/@(?P<who>\w+){_END}", (Feed("{origin}/@{who}/feed.rss"),), (_generator("gotosocial"),)
    ),
    Site(
        "misskey",
        _ANY,
        rf"/@(?P<who>\w+){_END}",
        (Feed("{origin}/@{who}.atom", "atom"),),
        (Mark(r"(?i)misskey|sharkey|firefish", "meta[name=application-name]"), Mark("", "#misskey_app", "id")),
    ),
    Site(
        "lemmy",
        _ANY,
        rf"/(?P<kind>[cu])/(?P<who>\w+){_END}",
        (Feed("{origin}/feeds/{kind}/{who}.xml"),),
        (Mark(r"window\.isoData\b"),),
    ),
    Site(
        "discourse topic",
        _ANY,
        rf"/t/(?P<topic>[^/?#]+/\d+)(?:/.*)?{_END}",
        (Feed("{origin}/t/{topic}.rss"),),
        (_DISCOURSE,),
    ),
    Site(
        "discourse category",
        _ANY,
        rf"/c/(?P<category>[^?#]+?/\d+){_END}",
        (Feed("{origin}/c/{category}.rss"),),
        (_DISCOURSE,),
    ),
    Site("discourse", _ANY, r".*", (Feed("{origin}/latest.rss"),), (_DISCOURSE,)),
    Site(
        "gitlab, on its own host",
        _ANY,
        rf"/(?!(?:explore|users|help|search|-)\b)(?P<repo>[\w.-]+/[\w./-]+?)(?:/-/.*)?{_END}",
        (
            Feed("{origin}/{repo}/-/tags?format=atom", "atom", "{repo}: tags"),
            Feed("{origin}/{repo}.atom", "atom", "{repo}: activity"),
        ),
        (Mark(r"\AGitLab\Z", "meta[property='og:site_name']"),),
    ),
    Site(
        "forgejo repository",
        _ANY,
        rf"/(?!(?:explore|user|org|api)/){_GITHUB_REPO}(?:/(?:releases|tags|commits|src|issues|pulls|wiki)\b.*)?{_END}",
        (
            Feed("{origin}/{repo}/releases.rss", title="{repo}: releases"),
            Feed("{origin}/{repo}.rss", title="{repo}: activity"),
        ),
        _FORGEJO,
    ),
    Site(
        "forgejo user",
        _ANY,
        rf"/(?!(?:explore|user|org|api)\b)(?P<who>[\w.-]+){_END}",
        (Feed("{origin}/{who}.rss"),),
        _FORGEJO,
    ),
    Site(
        "wordpress",
        _ANY,
        r".*",
        (Feed("{site}feed/"),),
        (Mark(r"\A(?P<site>https?://.*/)xmlrpc\.php", "link[rel=pingback]", "href"),),
    ),
    Site(
        "wordpress theme",
        _ANY,
        r".*",
        (Feed("{origin}/feed/"),),
        (Mark(r"/wp-(?:content/themes|includes/css)/", "link[rel=stylesheet]", "href"), _generator("WordPress")),
    ),
    Site("ghost", _ANY, r".*", (Feed("{origin}/rss/"),), (_generator("Ghost"),)),
)
"""Best first; of the rows that fit all are used, so the special stand before the general."""
