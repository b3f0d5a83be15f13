"""Findings about a page and the servers that it names, with the texts of `findings.toml`. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal
from urllib.parse import unquote

from microsub.base.identifiers import endpoint, identifier, shown
from microsub.base.plaintext import counted
from microsub.base.texts import N_, Sentence, duration
from microsub.fetch import Answered, FetchFailed, Hop
from microsub.identity.profiles import Profile
from microsub.identity.protocol.documents import (
    LinkLine,
    ServerMetadata,
    is_own,
    microsub_line,
    provider_lines,
    webmention_line,
)
from microsub.identity.protocol.links import ExaminedPage, WrittenLink, usable, written_links
from microsub.model.reader import NAME
from microsub.web.paths import ENDPOINT

FindingLevel = Literal["ok", "advice", "problem"]

ALL = ("Together", "Monocle", "IndiePass Android", "IndiePass iOS", "ek", "Ekstereye", "PADD", "microsub-notifier")
"""Apps that find everything by the page, and need the two older relations there: Monocle with a newer library reads
`indieauth-metadata`, with the one in its lock file it doesn't. IndiePass desktop is given endpoint and token by hand.
"""

RELS = ("microsub", "indieauth-metadata", "authorization_endpoint", "token_endpoint", "micropub")
"""The relations that are checked."""

LONG = 3600
"""Seconds above which a page's cache lifetime counts as long."""

_WIDTH = 96
_INDENT = " " * 9
_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,12})")
_NOT_KEPT = re.compile(r"(?:^|[\s,])no-(?:store|cache)\b")


@dataclass(frozen=True, slots=True)
class PageFinding:
    """One finding.

    `about` is a name that is the same in all versions; `text` is the fact, `fix` what to do, if anything; `clients` are
    the apps concerned, none if it concerns all users.
    """

    level: FindingLevel
    about: str
    text: str
    fix: str = ""
    clients: tuple[str, ...] = ()

    @property
    def concerned(self) -> tuple[str, ...]:
        """The `clients`, with all apps as one entry; none if it concerns all users."""
        rest = tuple(client for client in self.clients if client not in ALL)
        return (N_("all apps"), *rest) if set(ALL) <= set(self.clients) else self.clients


Findings = Iterator[PageFinding]


@cache
def _sentences() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("findings.toml").read_text("utf-8"))


def say(name: str, level: FindingLevel | None = None, **values: object) -> PageFinding:
    """The finding with that name in `findings.toml`, with these values in its sentences."""
    row = _sentences()[name]
    about, text, fix = (Sentence(row.get(part, ""), **values) for part in ("about", "text", "fix"))
    apps = (app for one in row.get("apps", ()) for app in (ALL if one == "all" else (one,)))
    return PageFinding(level or row["level"], about, text, fix, tuple(apps))


@dataclass(frozen=True, slots=True)
class PageReport:
    """All findings at `url`, in the order in which apps encounter them."""

    url: str
    findings: tuple[PageFinding, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing necessary is missing."""
        return not self.count("problem")

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if problems := self.count("problem"):
            return f"Fix {counted(problems, 'problem')} so that apps can sign you in."
        advice = self.count("advice")
        return "Everything is set up." if not advice else f"Everything is set up; {counted(advice, 'piece')} of advice."

    def count(self, level: FindingLevel) -> int:
        """The number of findings of that level."""
        return sum(1 for one in self.findings if one.level == level)

    def as_dict(self) -> dict[str, object]:
        """For programs: the report as JSON."""
        rows = [
            {"level": one.level, "about": one.about, "text": one.text, "fix": one.fix, "clients": list(one.clients)}
            for one in self.findings
        ]
        said = [{name: value for name, value in row.items() if value} for row in rows]
        return {"url": self.url, "complete": self.is_complete, "findings": said}

    def as_text(self) -> str:
        """The report for a terminal."""
        return "\n".join([self.url, *(line for one in self.findings for line in _printed(one)), self.verdict])


def _printed(one: PageFinding) -> Iterable[str]:
    yield from _wrapped(f"{one.about}: {one.text}", f"{one.level:<9}")
    if one.fix:
        yield from _wrapped(f"-> {one.fix}")
    if one.clients:
        yield from _wrapped(f"concerns {', '.join(one.concerned)}")


def _wrapped(text: str, begins: str = _INDENT) -> list[str]:
    """Sentences wrapped to paragraphs; lines to be copied are unchanged."""
    first, *lines = text.split("\n")
    told = wrap(
        first, _WIDTH, initial_indent=begins, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )
    return [*told, *(_INDENT + line for line in lines)]


# --- the page and its address ---------------------------------------------------------------------------------------


def page_finding(page: Answered, *, is_html: bool) -> PageFinding:
    """The finding if the page isn't served as HTML."""
    kind = (page.content_type or "nothing").partition(";")[0][:80]
    return say("page" if is_html else "page-not-html", url=page.final_url, status=page.status, kind=kind)


def address_findings(me: str, hops: Sequence[Hop], trail: Profile, *, private: bool) -> Findings:
    """Findings about the identity at this address, according to its redirects."""
    urls = [me, *(hop.url for hop in hops)]
    if not private and any(a.startswith("https:") and b.startswith("http:") for a, b in pairwise(urls)):
        yield say("redirect-to-http")
    if trail.moved_to is not None:
        yield say("moved", there=trail.moved_to)
    elif trail.me != me:
        yield say("known-as-another", me=me, known=trail.me)
    elif hops:
        yield say("redirect-for-now", me=me, there=urls[-1])
    else:
        yield say("known-as", me=me)


def scheme_findings(me: str, other: Answered | FetchFailed | None) -> Findings:
    """Findings about the page over http and https; `other` is the reply to HEAD with the other scheme."""
    if other is None:
        return
    is_there = isinstance(other, Answered) and other.status < 400
    if me.startswith("https:"):
        leads = isinstance(other, Answered) and other.final_url.startswith("https:")
        yield say("https-only" if not is_there else "http-leads-to-https" if leads else "http-too", me=me)
    else:
        yield say("https-too" if is_there else "http-only", https=f"https{me[4:]}")


def head_finding(page: Answered, head: Answered | FetchFailed) -> PageFinding:
    """The finding if HEAD and GET differ."""
    if isinstance(head, FetchFailed):
        return say("head-fails", detail=head.detail, status=page.status)
    if not 200 <= head.status < 300:
        return say("head-answers", head=head.status, status=page.status)
    if head.final_url != page.final_url:
        return say("head-leads-elsewhere", head=head.final_url, url=page.final_url)
    return say("head-agrees" if _in_header(head) == _in_header(page) else "head-names-others")


def _in_header(answer: Answered) -> list[tuple[str, str]]:
    """The relations that we use in the headers of a reply, with their addresses as written."""
    links = written_links(b"", answer.final_url, None, answer.headers.get("link"))
    return [(rel, link.target) for link in links for rel in link.rels if rel in RELS]


def caching_findings(page: Answered) -> Findings:
    """Findings about the page's cache lifetime."""
    rules = page.headers.get("cache-control", "").lower()
    match = None if _NOT_KEPT.search(rules) else _AGE.search(rules)
    if match is not None and (seconds := int(match[1])) > LONG:
        yield say("kept-for-long", duration=duration(seconds))


# --- its links ------------------------------------------------------------------------------------------------------


def link_findings(rel: str, links: Sequence[WrittenLink], page: Answered, ours: LinkLine | None = None) -> Findings:
    """Findings about how the page writes a relation; none if it doesn't have it.

    The target isn't checked. `ours` is this server's link for the relation, to be suggested.
    """
    mine = [link for link in links if rel in link.rels]
    found = [(link, address) for link in mine if (address := endpoint(link.target, link.base)) is not None]
    if mine and not found:
        name, line = ("link-unusable-here", ours.html) if ours is not None else ("link-unusable", "")
        yield say(name, rel=rel, target=shown(mine[0].target), line=line)
    if not found:
        return
    first, address = found[0]
    if len({one for _, one in found}) > 1:
        yield say("several-links", rel=rel, listed=", ".join(dict.fromkeys(one for _, one in found[:5])))
    if rel != "indieauth-metadata":
        seen = found_on_android(rel, links, page.headers.get("link"), page.final_url)
        if seen != address:
            name = "android-joined-rel" if first.place == "page" else "android-header"
            yield say(name, rel=rel, seen=seen or Sentence("none"), written=shown(first.rel))


def found_on_android(rel: str, links: Iterable[WrittenLink], link_header: str | None, url: str) -> str | None:
    """The address that the app finds for a relation: the last one in the headers, otherwise the page's first."""
    found = None
    for part in link_header.split(",") if link_header else []:
        target, *parameters = part.split(";")
        if not parameters:  # the app fails here and reads no further
            return found
        if parameters[0].strip().replace("rel=", "").replace('"', "") == rel:
            found = endpoint(target.strip(" <>"), url)
    if found is not None:
        return found
    return next((endpoint(one.target, one.base) for one in links if one.place == "page" and one.rel == rel), None)


def misplaced_findings(rels: frozenset[str]) -> Findings:
    """Findings about links in the page's body."""
    for rel in (one for one in RELS if one in rels):
        yield say("link-in-body", "advice" if rel in {"microsub", "micropub"} else None, rel=rel)


def missing_findings(has: frozenset[str], base: str | None, user: str | None = None, *, is_hosted: bool) -> Findings:
    """Findings about links that the page lacks.

    `has` are the relations that it has, with any address, `user` is its owner, if known; a page that `is_hosted` by
    this server has no place to post and no link that its user could add.
    """
    ours = base or "https://this-server.example"
    if "microsub" not in has:
        yield say("no-microsub", line=microsub_line(ours, user or "YOUR-NAME").html)
    older = [rel for rel in ("authorization_endpoint", "token_endpoint") if rel not in has]
    missing: str = Sentence("{first} and no {second}", first=older[0], second=older[1]) if older[1:] else "".join(older)
    if older and "indieauth-metadata" in has:
        yield say("no-older-links", missing=missing)
    elif older:
        yield say("no-provider", missing=missing, lines="\n".join(one.html for one in provider_lines(ours)))
    elif "indieauth-metadata" not in has:
        yield say("no-metadata-link")
    if "micropub" not in has and not is_hosted:
        yield say("no-micropub")


def webmention_findings(page: ExaminedPage, base: str | None, user: str | None) -> Findings:
    """Findings about the page's webmention endpoint, and about ours if the page belongs to a user here."""
    if (named := usable(page.links, ("webmention",)).get("webmention")) is not None:
        yield say("webmention", url=named)
    elif base is not None and user is not None and "webmention" not in page.in_body:
        yield say("no-webmention", line=webmention_line(base, user).html)


# --- the owner of an endpoint -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckedAgainst:
    """This server's address, and the `me` of the users that the visitor may know about, by name.

    `everybody`: these are all users of the server.
    """

    base: str | None = None
    people: Mapping[str, str] = field(default_factory=dict)
    everybody: bool = False


def user_in(microsub: str, base: str) -> str | None:
    """The user in the address of an endpoint of the server at `base`; empty if it names none.

    None if it isn't an endpoint of that server.
    """
    if not is_own(microsub, base):
        return None
    path = identifier(microsub).path[len(identifier(base).path.rstrip("/")) :].removesuffix("/")
    if path == ENDPOINT:
        return ""
    name = path.removeprefix(f"{ENDPOINT}/")
    return unquote(name) if name != path and "/" not in name else None


def user_of(trail: Profile, here: CheckedAgainst) -> str | None:
    """The owner of the page, among the users that the visitor may know about."""
    return next((name for name, me in here.people.items() if me in trail.names), None)


def endpoint_findings(microsub: str, here: CheckedAgainst, trail: Profile, *, own_provider: bool) -> Findings:
    """Findings about the user in the endpoint's address, and whether the page is theirs."""
    if here.base is None or not is_own(microsub, here.base):
        yield say("another-servers-endpoint" if here.base else "endpoint", url=microsub)
        return
    user, known = user_in(microsub, here.base), user_of(trail, here)
    if user is None:
        ours = microsub_line(here.base, known or _last_name(microsub) or "YOUR-NAME").href
        yield say("no-endpoint-of-ours", url=microsub, ours=ours)
    elif user:
        yield say("endpoint-of-user", url=microsub, user=user)
        yield from _account(user, here, trail)
    else:
        name = "endpoint-for-anybody" if own_provider else "endpoint-without-name"
        yield say(name, url=microsub, ours=microsub_line(here.base, known or "YOUR-NAME").href)
        if known is not None:
            yield from _account(known, here, trail)


def _account(user: str, here: CheckedAgainst, trail: Profile) -> Findings:
    theirs, known = here.people.get(user), user_of(trail, here)
    name = shown(user)
    if theirs is None and here.everybody and known is not None:
        yield say("another-users-page", user=name, known=known, line=microsub_line(here.base or "", known).html)
    elif theirs is None and here.everybody:
        yield say("no-such-user", user=name, me=trail.me)
    elif theirs is None and here.people:
        line = microsub_line(here.base or "", next(iter(here.people))).html
        yield say("somebody-elses-endpoint", user=name, known=", ".join(here.people), line=line)
    elif theirs is not None and not theirs:
        yield say("user-without-me", user=user, me=trail.me)
    elif theirs is not None:
        kind = "account" if theirs in trail.names else "user-of-another-page"
        yield say(kind, user=user, theirs=theirs, me=trail.me)


def _last_name(url: str) -> str | None:
    """The last of several parts of an address's path, if it could be a user's name."""
    parts = url.partition("?")[0].rstrip("/").split("/")
    return parts[-1] if len(parts) > 4 and NAME.match(parts[-1]) else None


# --- the servers that it names --------------------------------------------------------------------------------------


def metadata_findings(metadata: ServerMetadata, url: str, named: Mapping[str, str]) -> Findings:
    """Findings about the provider's metadata; `named` are the page's addresses by relation."""
    yield say("metadata", url=url, issuer=metadata.issuer)
    yield from _issuer_findings(metadata.issuer)
    if not metadata.has_pkce:
        yield say("no-pkce")
    if not metadata.iss_in_response:
        yield say("no-iss")
    if metadata.introspection_endpoint is None:
        yield say("no-introspection")
    for rel in ("authorization_endpoint", "token_endpoint"):
        told = getattr(metadata, rel)
        if rel in named and named[rel] != told:
            yield say("lines-differ", rel=rel, written=named[rel], told=told)


def _issuer_findings(issuer: str) -> Findings:
    if not issuer.lower().startswith("https:"):
        yield say("issuer-without-https", issuer=issuer)


def mistyped_here(named: Mapping[str, str], base: str | None) -> frozenset[str]:
    """The relations whose address is on this server but isn't its address for that relation.

    They needn't be requested, since `own_provider_findings` and `endpoint_findings` report them.
    """
    if base is None:
        return frozenset()
    wrong = {line.rel for line in provider_lines(base) if _is_other(named.get(line.rel), line, base)}
    if is_own(named.get("microsub"), base) and user_in(named["microsub"], base) is None:
        wrong.add("microsub")
    return frozenset(wrong)


def _is_other(found: str | None, line: LinkLine, base: str) -> bool:
    return found is not None and is_own(found, base) and found.partition("?")[0] != line.href


def own_provider_findings(named: Mapping[str, str], base: str) -> Findings:
    """Findings about the links that name this server as the provider: whether they are correct."""
    for line in provider_lines(base):
        found = named.get(line.rel)
        if found is None or not is_own(found, base):
            continue
        if _is_other(found, line, base):
            yield say("no-line-of-ours", rel=line.rel, url=found, line=line.html)
            continue
        yield say("line-of-ours", rel=line.rel, url=found)
        if line.rel == "indieauth-metadata":
            yield from _issuer_findings(base)


def answering_findings(
    rel: str, url: str, answer: Answered | FetchFailed, *, private: bool, meant: LinkLine | None = None
) -> Findings:
    """Findings about the response of an endpoint that was requested without a token.

    `meant` is a similar correct link, or the one in the provider's metadata.
    """
    kind = "endpoint" if rel == "microsub" else "provider"
    values: dict[str, Any] = {
        "rel": rel,
        "url": url,
        "instead": Sentence("If this is what you mean, write {line} ", line=meant.html) if meant is not None else "",
    }
    if isinstance(answer, FetchFailed):
        yield say(f"{kind}-silent", detail=answer.detail, **values)
    elif answer.status in {404, 410} or answer.status >= 500:
        yield say(f"{kind}-fails", status=answer.status, **values)
    elif kind == "provider":
        is_safe = private or not url.startswith("http:")
        yield say("provider-answers" if is_safe else "provider-without-https", **values)
    elif answer.status not in {400, 401, 403}:
        yield say("endpoint-lets-in", status=answer.status, **values)
    else:
        yield say("endpoint-answers", **values)
        if answer.headers.get("access-control-allow-origin") is None:
            yield say("endpoint-without-cors")


def feed_finding(feeds: Sequence[str], first: Answered | FetchFailed | None) -> PageFinding:
    """The finding about following the page.

    `first` is the result for the first feed's address, None if that is the page.
    """
    if not feeds:
        return say("no-feed")
    url = shown(feeds[0])
    if isinstance(first, FetchFailed) and first.reason != "too_large":
        return say("feed-unreachable", url=url, detail=first.detail)
    if isinstance(first, Answered) and not 200 <= first.status < 300:
        return say("feed-fails", url=url, status=first.status)
    return say("feed" if first is not None else "page-is-feed", url=url)
