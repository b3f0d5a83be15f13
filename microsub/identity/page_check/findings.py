"""Findings about a profile page and the servers that it names, and the report that is made of them. Pure.

What each app does is told in `docs/how-to/check-your-page.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import Literal
from urllib.parse import unquote

from microsub.fetch import Answered, FetchFailed, Hop
from microsub.identity.profiles import RedirectTrail
from microsub.identity.protocol.documents import ServerMetadata, is_own
from microsub.identity.protocol.links import WrittenLink, endpoint, shown, written_links
from microsub.kit.identifiers import identifier
from microsub.model.reader import NAME


@dataclass(frozen=True, slots=True)
class LinkLine:
    """One `<link>`."""

    rel: str
    href: str

    @property
    def html(self) -> str:
        """As it stands in a page."""
        return f'<link rel="{self.rel}" href="{escape(self.href)}">'


PROFILES = "/u"


def profile_page(base: str, user: str) -> str:
    """The address that the server at `base` lends to `user`, whose `me` it is where they have none of their own."""
    return f"{base}{PROFILES}/{user}"


def microsub_line(base: str, user: str) -> LinkLine:
    """Where `user` reads. With the name in it, tokens of the user's own provider can be checked."""
    return LinkLine("microsub", f"{base}/microsub/{user}")


def provider_lines(base: str) -> tuple[LinkLine, ...]:
    """The lines of who has the server at `base` as identity provider: what the standard wants, then what apps read."""
    return (
        LinkLine("indieauth-metadata", f"{base}/.well-known/oauth-authorization-server"),
        LinkLine("authorization_endpoint", f"{base}/auth"),
        LinkLine("token_endpoint", f"{base}/token"),
    )


FindingLevel = Literal["ok", "advice", "problem"]

TOGETHER = "Together"
MONOCLE = "Monocle"
ANDROID = "IndiePass Android"
IOS = "IndiePass iOS"
DESKTOP = "IndiePass desktop"
EK = "ek"
EKSTEREYE = "Ekstereye"
PADD = "PADD"
NOTIFIER = "microsub-notifier"
HERE = "this server"
"""Its own sign-in, and its check of other providers' tokens."""

ALL = (TOGETHER, MONOCLE, ANDROID, IOS, EK, EKSTEREYE, PADD, NOTIFIER)
"""Apps that find everything by the page, and need the two older relations there: Monocle with a newer library reads
`indieauth-metadata`, with that of its lock file it doesn't. IndiePass desktop is given endpoint and token by hand.
"""

WANT_MICROPUB = (IOS, EKSTEREYE)
"""Apps that don't sign anybody in whose page names no `micropub`."""

_WIDTH = 96
_INDENT = " " * 9


@dataclass(frozen=True, slots=True)
class PageFinding:
    """One thing.

    `about` is a name that stays the same from version to version; `text` says what is so, `fix` what to do, where
    there is something; `clients` are the apps that it concerns, none for everybody.

    A `problem` keeps apps, or more than one of them, from working; `advice` is about one app, or about a day to come.
    """

    level: FindingLevel
    about: str
    text: str
    fix: str = ""
    clients: tuple[str, ...] = ()

    @property
    def concerns(self) -> str:
        """The `clients` in words; empty for everybody."""
        rest = [client for client in self.clients if client not in ALL]
        return ", ".join(["all apps", *rest] if set(ALL) <= set(self.clients) else self.clients)


def problem(about: str, text: str, fix: str = "", clients: tuple[str, ...] = ()) -> PageFinding:
    """What keeps apps from working."""
    return PageFinding("problem", about, text, fix, clients)


def advice(about: str, text: str, fix: str = "", clients: tuple[str, ...] = ()) -> PageFinding:
    """What is about one app, or about a day to come."""
    return PageFinding("advice", about, text, fix, clients)


def ok(about: str, text: str) -> PageFinding:
    """What is as it should be."""
    return PageFinding("ok", about, text)


@dataclass(frozen=True, slots=True)
class PageReport:
    """All that was found at `url`, in the order in which apps come upon it."""

    url: str
    findings: tuple[PageFinding, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing that is needed is missing."""
        return not self.problems

    @property
    def problems(self) -> int:
        """How many findings have to be corrected."""
        return sum(1 for one in self.findings if one.level == "problem")

    @property
    def verdict(self) -> str:
        """It all in one sentence."""
        if self.problems:
            return f"{_counted(self.problems, 'problem')} to correct, then apps can sign you in."
        advice = sum(1 for one in self.findings if one.level == "advice")
        return "Nothing is missing." if not advice else f"Nothing is missing; {_counted(advice, 'piece')} of advice."

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "url": self.url,
            "complete": self.is_complete,
            "findings": [
                {
                    "level": one.level,
                    "about": one.about,
                    "text": one.text,
                    **({"fix": one.fix} if one.fix else {}),
                    **({"clients": list(one.clients)} if one.clients else {}),
                }
                for one in self.findings
            ],
        }

    def as_text(self) -> str:
        """For a terminal."""
        return "\n".join([self.url, *(line for one in self.findings for line in _printed(one)), self.verdict])


def _printed(one: PageFinding) -> Iterable[str]:
    yield from _wrapped(f"{one.about}: {one.text}", f"{one.level:<9}")
    if one.fix:
        yield from _wrapped(f"-> {one.fix}")
    if one.clients:
        yield from _wrapped(f"concerns {one.concerns}")


def _wrapped(text: str, begins: str = _INDENT) -> list[str]:
    """Sentences as paragraphs; lines that are to be copied stay lines."""
    first, *lines = text.split("\n")
    told = wrap(
        first, _WIDTH, initial_indent=begins, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )
    return [*told, *(_INDENT + line for line in lines)]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


LONG = 3600
"""Seconds for which a page may be kept before that counts as long."""

RELS = ("microsub", "indieauth-metadata", "authorization_endpoint", "token_endpoint", "micropub")
"""The relations that are looked for."""

_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,12})")
_NOT_KEPT = re.compile(r"(?:^|[\s,])no-(?:store|cache)\b")


def address_findings(me: str, hops: Sequence[Hop], trail: RedirectTrail, *, private: bool) -> Iterable[PageFinding]:
    """Who somebody is by this address, as far as redirects tell."""
    if not private and any(a.startswith("https:") and b.startswith("http:") for a, b in pairwise([me, *_urls(hops)])):
        yield problem(
            "redirects",
            "a redirect leads from https to http, where others can change the page on its way",
            "Let every redirect lead to https.",
        )
    if trail.moved_to is not None:
        yield advice(
            "redirects",
            f"the page has moved for good to another site, {trail.moved_to}; some apps take that for another person",
            f"Enter {trail.moved_to} in apps, and have it as your 'me' on this server, so that it lasts.",
        )
    elif trail.me != me:
        yield ok("me", f"{me} redirects for good: you are known as {trail.me}")
    elif hops:
        yield advice(
            "me",
            f"{me} redirects for the time being only (302, 303, 307): you are known as {me}, and what stands on "
            f"{hops[-1].url} counts",
            "If the other address is to be you, redirect with 301 or 308.",
        )
    else:
        yield ok("me", f"you are known as {trail.me}")


def scheme_findings(me: str, other: Answered | FetchFailed | None) -> Iterable[PageFinding]:
    """How the page's http and https stand to each other; `other` is what the other of the two said to HEAD."""
    if other is None:
        return
    if me.startswith("https:"):
        if isinstance(other, FetchFailed) or other.status >= 400:
            yield ok("https", "the page is there by https, and not by http")
        elif other.final_url.startswith("https:"):
            yield ok("https", "the page is there by https, and http leads there")
        else:
            yield advice(
                "https",
                "the page is there by http too; to an app that puts http before a domain, that is somebody else",
                f"Let the http address redirect to {me} with 301 or 308.",
            )
    elif isinstance(other, FetchFailed) or other.status >= 400:
        yield problem(
            "https",
            "the page is there by http only, where others can change it on its way, and with it who you are",
            "Get a certificate for the domain, and use the https address.",
        )
    else:
        yield advice(
            "https",
            "the page is there by https too, and that address proves more",
            f"Use https{me[4:]} in apps and as your 'me'.",
        )


def head_findings(page: Answered, head: Answered | FetchFailed) -> Iterable[PageFinding]:
    """Whether HEAD says what GET says."""
    if isinstance(head, FetchFailed) or not 200 <= head.status < 300:
        found = f"fails ({head.detail})" if isinstance(head, FetchFailed) else f"answers {head.status}"
        text = f"HEAD {found}, GET answers {page.status}; the app asks with HEAD first"
    elif head.final_url != page.final_url:
        text = f"HEAD leads to {head.final_url}, GET to {page.final_url}; the app asks with HEAD first"
    elif _in_header(head) != _in_header(page):
        text = "the Link headers of HEAD and GET name different endpoints; the app believes those of HEAD"
    else:
        yield ok("HEAD", "HEAD and GET agree")
        return
    yield advice("HEAD", text, "Have the web server answer HEAD as GET, without the body.", (MONOCLE,))


def caching_findings(page: Answered) -> Iterable[PageFinding]:
    """For how long apps may keep the page."""
    rules = page.headers.get("cache-control", "").lower()
    match = None if _NOT_KEPT.search(rules) else _AGE.search(rules)
    if match is not None and int(match[1]) > LONG:
        yield advice(
            "caching",
            f"the page may be kept for {_duration(int(match[1]))} (Cache-Control); after a change the app goes on "
            "with the old endpoints for so long",
            "Serve the page with 'Cache-Control: max-age=600', at least before you change its links.",
            (TOGETHER,),
        )


def link_findings(
    name: str, links: Sequence[WrittenLink], page: Answered, ours: LinkLine | None = None
) -> Iterable[PageFinding]:
    """How a relation is written that the page has; nothing where it hasn't.

    What it leads to isn't looked at. `ours` is the line that this server has for it, to be offered.
    """
    mine = [link for link in links if name in link.rels]
    found = [(link, address) for link in mine if (address := endpoint(link.target, link.base)) is not None]
    if mine and not found:
        fix = "It has to be an http or https URL without user, password and fragment."
        if ours is not None:
            fix += f" Write {ours.html}, if that is meant."
        yield problem(name, f"the address '{shown(mine[0].target)}' can't be used", fix)
    if not found:
        return
    first, address = found[0]
    if len({one for _, one in found}) > 1:
        listed = ", ".join(dict.fromkeys(one for _, one in found[:5]))
        yield advice(
            name,
            f"the page names several, and not every app takes the first: {listed}",
            "Leave one. A Link header counts before the page.",
        )
    if name != "indieauth-metadata":
        seen = found_on_android(name, links, page.headers.get("link"), page.final_url)
        if seen != address:
            yield _not_on_android(name, first, seen)


def misplaced_findings(rels: frozenset[str]) -> Iterable[PageFinding]:
    """Links that stand in the page's body."""
    for rel in (one for one in RELS if one in rels):
        yield PageFinding(
            "advice" if rel in {"microsub", "micropub"} else "problem",
            rel,
            f"the line with rel={rel} stands in the body, where it doesn't count, since others may write there",
            "Move it into <head>. Text, or an element such as <div>, ends the head: put the line before it.",
            (HERE,),
        )


def missing_findings(
    has: frozenset[str], base: str | None, user: str | None = None, *, is_lent: bool = False
) -> Iterable[PageFinding]:
    """What the page doesn't name.

    `has` are the relations that it has, with whatever address, `user` whose page it is, if known; a page that
    `is_lent` by this server has no place to post and no line that its user could add.
    """
    ours = base or "https://this-server.example"
    if "microsub" not in has:
        yield problem(
            "microsub",
            "the page doesn't say where you read",
            f"Add {microsub_line(ours, user or 'YOUR-NAME').html}",
            ALL,
        )
    older = [name for name in ("authorization_endpoint", "token_endpoint") if name not in has]
    if older and "indieauth-metadata" in has:
        yield problem(
            "provider",
            f"the page names no {' and no '.join(older)}, and many apps don't read indieauth-metadata",
            "Add these lines too, with the addresses that the provider's metadata has.",
            ALL,
        )
    elif older:
        lines = "\n".join(one.html for one in provider_lines(ours))
        yield problem(
            "provider",
            f"the page doesn't say who vouches for you: no indieauth-metadata, no {' and no '.join(older)}",
            f"Add the lines of your provider, or those of this server, if it is to be that:\n{lines}",
            (*ALL, HERE),
        )
    if "indieauth-metadata" not in has and not older:
        yield advice(
            "indieauth-metadata",
            "the page names its provider the older way only, so nobody can check that an answer is that provider's",
            "If your provider has a metadata document, add its line with rel=indieauth-metadata.",
            (HERE,),
        )
    if "micropub" not in has and not is_lent:
        yield advice(
            "micropub",
            "the page names no micropub endpoint; these apps refuse to sign in without one",
            "Add a line with rel=micropub for where you post. If you only read, any address of your own will do.",
            WANT_MICROPUB,
        )


def query_finding(microsub: str) -> Iterable[PageFinding]:
    """An endpoint with a question mark in it."""
    if "?" in microsub:
        yield advice(
            "microsub",
            f"the endpoint {microsub} has a query, and the app writes '?action=' behind it",
            "Name an endpoint without a query.",
            (DESKTOP,),
        )


def _in_header(answer: Answered) -> list[tuple[str, str]]:
    """The relations of ours that an answer's headers name, with their addresses as written."""
    links = written_links(b"", answer.final_url, None, answer.headers.get("link"))
    return [(rel, link.target) for link in links for rel in link.rels if rel in RELS]


def _not_on_android(name: str, first: WrittenLink, seen: str | None) -> PageFinding:
    if first.place == "page":
        why = f"it stands with others in one rel ('{shown(first.rel)}'), which the app compares as a whole"
        fix = f"Write a link of its own with rel={name}."
    else:
        why = "the app takes a Link header apart at every comma and semicolon, and wants one value in each rel"
        fix = f'Add <link rel="{name}" href="…"> to the page, or write the header plainly: <…>; rel="{name}".'
    return advice(name, f"the app finds {seen or 'none'} here: {why}", fix, (ANDROID,))


def _urls(hops: Iterable[Hop]) -> list[str]:
    return [hop.url for hop in hops]


def _duration(seconds: int) -> str:
    for length, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            count = seconds // length
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds} seconds"


def found_on_android(name: str, links: Iterable[WrittenLink], link_header: str | None, url: str) -> str | None:
    """The address that it finds for a relation: the last in the headers, else the first in the page; None for none."""
    found = None
    for part in link_header.split(",") if link_header else []:
        target, *parameters = part.split(";")
        if not parameters:  # it stumbles, and reads no further
            return found
        if parameters[0].strip().replace("rel=", "").replace('"', "") == name:
            found = endpoint(target.strip(" <>"), url)
    if found is not None:
        return found
    return next((endpoint(one.target, one.base) for one in links if one.place == "page" and one.rel == name), None)


ENDPOINT = "/microsub"


@dataclass(frozen=True, slots=True)
class CheckedAgainst:
    """What is known of this server.

    Its address, and the `me` of the users whom the asker may know about, by name.

    `everybody` says that these are all users there are.
    """

    base: str | None = None
    people: Mapping[str, str] = field(default_factory=dict)
    everybody: bool = False


def user_in(microsub: str, base: str) -> str | None:
    """The user whom an endpoint of the server at `base` names; empty where it names none.

    None where it is no endpoint of that server.
    """
    if not is_own(microsub, base):
        return None
    path = identifier(microsub).path[len(identifier(base).path.rstrip("/")) :].removesuffix("/")
    if path == ENDPOINT:
        return ""
    name = path.removeprefix(f"{ENDPOINT}/")
    return unquote(name) if name != path and "/" not in name else None


def user_of(trail: RedirectTrail, here: CheckedAgainst) -> str | None:
    """The user whose page it is, among those whom the asker may know about."""
    return next((name for name, me in here.people.items() if me in trail.names), None)


def endpoint_findings(
    microsub: str, here: CheckedAgainst, trail: RedirectTrail, *, own_provider: bool
) -> Iterable[PageFinding]:
    """Whose endpoint a page names, and whether that user is who has the page."""
    if here.base is None or not is_own(microsub, here.base):
        yield ok("microsub", f"{microsub}, which is another server's" if here.base else microsub)
        return
    user = user_in(microsub, here.base)
    if user is None:
        yield problem(
            "microsub",
            f"{microsub} is on this server, but no Microsub endpoint",
            f"Name {microsub_line(here.base, user_of(trail, here) or _last_name(microsub) or 'YOUR-NAME').href}",
            ALL,
        )
        return
    if not user:
        yield from _without_name(microsub, here, trail, own_provider=own_provider)
        return
    yield ok("microsub", f"{microsub}, this server's endpoint for {user}")
    yield from _account(user, here, trail)


def _without_name(
    microsub: str, here: CheckedAgainst, trail: RedirectTrail, *, own_provider: bool
) -> Iterable[PageFinding]:
    base = here.base or ""
    known = user_of(trail, here)
    if own_provider:
        yield ok("microsub", f"{microsub}, this server's endpoint for anybody with the token")
    else:
        yield advice(
            "microsub",
            f"{microsub} is this server's endpoint without a name; which provider vouches for a token is then known "
            "only where the server has one user",
            f"Name {microsub_line(base, known or 'YOUR-NAME').href}",
        )
    if known is not None:
        yield from _account(known, here, trail)


def _account(user: str, here: CheckedAgainst, trail: RedirectTrail) -> Iterable[PageFinding]:
    me = here.people.get(user)
    known = user_of(trail, here)
    if me is None and here.everybody and known is not None:
        yield problem(
            "account",
            f"there is no user {shown(user)} here; this page is {known}'s",
            f"Write {microsub_line(here.base or '', known).html}",
        )
    elif me is None and here.everybody:
        yield problem(
            "account", f"there is no user {shown(user)} here", f'Add the user to backend.json, with "me": "{trail.me}".'
        )
    elif me is None and here.people:
        yield problem(
            "account",
            f"the page names the endpoint of {shown(user)}; you are signed in as {', '.join(here.people)}",
            f"Write {microsub_line(here.base or '', next(iter(here.people))).html}",
        )
    elif me is not None and not me:
        yield problem(
            "account",
            f"the user {user} has no 'me' here, so nobody can vouch for them",
            f'Set "me": "{trail.me}" for {user} in backend.json.',
        )
    elif me is not None and me not in trail.names:
        yield problem(
            "account",
            f"the user {user} is {me} here, and this page's address is {trail.me}: tokens for it don't count",
            f'Set "me": "{trail.me}" for {user} in backend.json, or put the lines on {me}.',
        )
    elif me is not None:
        yield ok("account", f"the user {user} of this server is {me}, which is this page")


def metadata_findings(metadata: ServerMetadata, url: str) -> Iterable[PageFinding]:
    """What a provider says of itself that can be read."""
    yield ok("indieauth-metadata", f"{url} can be read; the issuer is {metadata.issuer}")
    yield from _issuer_findings(metadata.issuer)
    if "S256" not in metadata.code_challenge_methods_supported:
        yield advice(
            "PKCE",
            "the metadata doesn't say that the provider knows PKCE with S256, which the apps use",
            "Ask for it in the provider: code_challenge_methods_supported.",
            (MONOCLE, ANDROID, HERE),
        )
    if not metadata.iss_in_response:
        yield advice(
            "iss",
            "the provider doesn't name itself in its answers (RFC 9207), so two can be mistaken for each other",
            "Ask for it in the provider: authorization_response_iss_parameter_supported.",
            (HERE,),
        )
    if metadata.introspection_endpoint is None:
        yield advice(
            "introspection",
            "the provider has no introspection endpoint; tokens are checked the older way, at its token endpoint",
            "",
            (HERE,),
        )


def _issuer_findings(issuer: str) -> Iterable[PageFinding]:
    if not issuer.lower().startswith("https:"):
        yield advice(
            "issuer",
            f"the issuer {issuer} isn't https, which the app refuses",
            "Give the provider an https address.",
            (MONOCLE,),
        )


def metadata_failed(url: str, detail: str) -> PageFinding:
    """The document can't be had or used."""
    return problem(
        "indieauth-metadata",
        f"{url} can't be used: {detail}",
        "Correct the document, or remove the line: an app that finds it ignores the older lines.",
        (MONOCLE, HERE),
    )


def differing_findings(metadata: ServerMetadata, named: Mapping[str, str]) -> Iterable[PageFinding]:
    """Where the page's older lines lead apps elsewhere than the metadata does. `named` are addresses by relation."""
    for rel, told in (
        ("authorization_endpoint", metadata.authorization_endpoint),
        ("token_endpoint", metadata.token_endpoint),
    ):
        if rel in named and named[rel] != told:
            yield advice(
                rel,
                f"the page says {named[rel]}, the provider's metadata {told}: apps go to the one or the other",
                "Write the same in both, or leave one provider.",
                ALL,
            )


def _last_name(url: str) -> str | None:
    """The last of several parts of an address's path, where it could be the name of a user."""
    parts = url.partition("?")[0].rstrip("/").split("/")
    return parts[-1] if len(parts) > 4 and NAME.match(parts[-1]) else None


def mistyped_here(named: Mapping[str, str], base: str | None) -> frozenset[str]:
    """The relations whose address is on this server and isn't one that it has for that.

    Which needn't be asked about, since `own_provider_findings` and `endpoint_findings` say it.
    """
    if base is None:
        return frozenset()
    wrong = {line.rel for line in provider_lines(base) if _is_other(named.get(line.rel), line, base)}
    if is_own(named.get("microsub"), base) and user_in(named["microsub"], base) is None:
        wrong.add("microsub")
    return frozenset(wrong)


def _is_other(found: str | None, line: LinkLine, base: str) -> bool:
    return found is not None and is_own(found, base) and found.partition("?")[0] != line.href


def own_provider_findings(named: Mapping[str, str], base: str) -> Iterable[PageFinding]:
    """Whether the lines that name this server as the provider are those that it has."""
    for line in provider_lines(base):
        found = named.get(line.rel)
        if found is None or not is_own(found, base):
            continue
        if not _is_other(found, line, base):
            yield ok(line.rel, f"{found}, which is this server's")
            if line.rel == "indieauth-metadata":
                yield from _issuer_findings(base)
        else:
            yield problem(line.rel, f"{found} is on this server, but isn't what it has for that", f"Write {line.html}")


def _advice(meant: LinkLine | None, otherwise: str) -> str:
    return otherwise if meant is None else f"Write {meant.html}, if that is meant. {otherwise}"


def answering_findings(
    about: str, url: str, answer: Answered | FetchFailed, *, private: bool, meant: LinkLine | None = None
) -> Iterable[PageFinding]:
    """Whether anything answers at an endpoint of the provider, which was asked nothing in particular. `meant` is a line
    that is near, or what the provider's metadata has.
    """
    if isinstance(answer, FetchFailed):
        yield problem(about, f"{url} doesn't answer: {answer.detail}", _advice(meant, "Check the address."))
    elif answer.status in {404, 410} or answer.status >= 500:
        fix = _advice(meant, "Check the address, and the provider's log.")
        yield problem(about, f"{url} answers {answer.status}", fix)
    elif not private and url.startswith("http:"):
        yield problem(
            about,
            f"{url} isn't https: codes and tokens could be read on their way, and this server sends none there",
            "Name the https address.",
        )
    else:
        yield ok(about, f"{url} answers")


def microsub_findings(url: str, answer: Answered | FetchFailed, meant: LinkLine | None = None) -> Iterable[PageFinding]:
    """Whether an endpoint answers as one, to who has no token. `meant` is a line that is near."""
    fix = _advice(meant, "Check the address.")
    if isinstance(answer, FetchFailed):
        yield problem("microsub", f"{url} doesn't answer: {answer.detail}", fix, ALL)
    elif answer.status in {404, 410} or answer.status >= 500:
        yield problem("microsub", f"{url} answers {answer.status}", fix, ALL)
    elif answer.status not in {400, 401, 403}:
        yield advice("microsub", f"{url} answers {answer.status} to a request without a token, where 401 was expected")
    else:
        yield ok("microsub", f"{url} answers, and wants a token")
        if answer.headers.get("access-control-allow-origin") is None:
            yield advice(
                "microsub",
                "the endpoint lets no browser ask from another site (CORS), where the app runs",
                "Let the server send Access-Control-Allow-Origin: *.",
                (EKSTEREYE,),
            )


def feed_findings(feeds: Sequence[str], first: Answered | FetchFailed | None) -> Iterable[PageFinding]:
    """Whether others can follow the page. `first` is what the first feed's address says, None where it is the page."""
    if not feeds:
        yield advice(
            "feeds",
            "the page neither is nor names a feed, so nobody can follow it",
            'Mark up the posts as an h-feed, or add <link rel="alternate" type="application/rss+xml" href="…">.',
        )
    elif isinstance(first, FetchFailed) and first.reason != "too_large":
        yield advice("feeds", f"{shown(feeds[0])}, which the page names, can't be fetched: {first.detail}")
    elif isinstance(first, Answered) and not 200 <= first.status < 300:
        yield advice("feeds", f"{shown(feeds[0])}, which the page names, answers {first.status}")
    else:
        yield ok("feeds", "the page can be followed" + (f": {shown(feeds[0])}" if first is not None else ""))
