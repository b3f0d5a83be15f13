"""Findings about a profile page's address, redirects, headers and links. Pure.

What each app does is told in `docs/how-to/check-your-page.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from microsub.fetch import Answered, FetchFailed, Hop
from microsub.identity.page_check.report import (
    ALL,
    ANDROID,
    DESKTOP,
    HERE,
    MONOCLE,
    TOGETHER,
    WANT_MICROPUB,
    LinkLine,
    PageFinding,
    microsub_line,
    provider_lines,
)
from microsub.identity.protocol.identifiers import endpoint, shown
from microsub.identity.protocol.links import WrittenLink, written_links
from microsub.identity.sign_in.profiles import RedirectTrail

LONG = 3600
"""Seconds for which a page may be kept before that counts as long."""

RELS = ("microsub", "indieauth-metadata", "authorization_endpoint", "token_endpoint", "micropub")
"""The relations that are looked for."""

_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,12})")
_NOT_KEPT = re.compile(r"(?:^|[\s,])no-(?:store|cache)\b")


def address_findings(me: str, hops: Sequence[Hop], trail: RedirectTrail, *, private: bool) -> Iterable[PageFinding]:
    """Who somebody is by this address, as far as redirects tell."""
    if not private and any(a.startswith("https:") and b.startswith("http:") for a, b in pairwise([me, *_urls(hops)])):
        yield PageFinding(
            "problem",
            "redirects",
            "a redirect leads from https to http, where others can change the page on its way",
            "Let every redirect lead to https.",
        )
    if trail.moved_to is not None:
        yield PageFinding(
            "advice",
            "redirects",
            f"the page has moved for good to another site, {trail.moved_to}; some apps take that for another person",
            f"Enter {trail.moved_to} in apps, and have it as your 'me' on this server, so that it lasts.",
        )
    elif trail.me != me:
        yield PageFinding("ok", "me", f"{me} redirects for good: you are known as {trail.me}")
    elif hops:
        yield PageFinding(
            "advice",
            "me",
            f"{me} redirects for the time being only (302, 303, 307): you are known as {me}, and what stands on "
            f"{hops[-1].url} counts",
            "If the other address is to be you, redirect with 301 or 308.",
        )
    else:
        yield PageFinding("ok", "me", f"you are known as {trail.me}")


def scheme_findings(me: str, other: Answered | FetchFailed | None) -> Iterable[PageFinding]:
    """How the page's http and https stand to each other; `other` is what the other of the two said to HEAD."""
    if other is None:
        return
    if me.startswith("https:"):
        if isinstance(other, FetchFailed) or other.status >= 400:
            yield PageFinding("ok", "https", "the page is there by https, and not by http")
        elif other.final_url.startswith("https:"):
            yield PageFinding("ok", "https", "the page is there by https, and http leads there")
        else:
            yield PageFinding(
                "advice",
                "https",
                "the page is there by http too; to an app that puts http before a domain, that is somebody else",
                f"Let the http address redirect to {me} with 301 or 308.",
            )
    elif isinstance(other, FetchFailed) or other.status >= 400:
        yield PageFinding(
            "problem",
            "https",
            "the page is there by http only, where others can change it on its way, and with it who you are",
            "Get a certificate for the domain, and use the https address.",
        )
    else:
        yield PageFinding(
            "advice",
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
        yield PageFinding("ok", "HEAD", "HEAD and GET agree")
        return
    yield PageFinding("advice", "HEAD", text, "Have the web server answer HEAD as GET, without the body.", (MONOCLE,))


def caching_findings(page: Answered) -> Iterable[PageFinding]:
    """For how long apps may keep the page."""
    rules = page.headers.get("cache-control", "").lower()
    match = None if _NOT_KEPT.search(rules) else _AGE.search(rules)
    if match is not None and int(match[1]) > LONG:
        yield PageFinding(
            "advice",
            "caching",
            f"the page may be kept for {_duration(int(match[1]))} (Cache-Control); after a change the app goes on "
            "with the old endpoints for so long",
            "Serve the page with 'Cache-Control: max-age=600', at least before you change its links.",
            (TOGETHER,),
        )


def link_findings(
    name: str, links: Sequence[WrittenLink], page: Answered, ours: LinkLine | None = None
) -> Iterable[PageFinding]:
    """How a relation is written that the page has; nothing where it hasn't. What it leads to isn't looked at. `ours` is
    the line that this server has for it, to be offered.
    """
    mine = [link for link in links if name in link.rels]
    found = [(link, address) for link in mine if (address := endpoint(link.target, link.base)) is not None]
    if mine and not found:
        fix = "It has to be an http or https URL without user, password and fragment."
        if ours is not None:
            fix += f" Write {ours.html}, if that is meant."
        yield PageFinding("problem", name, f"the address '{shown(mine[0].target)}' can't be used", fix)
    if not found:
        return
    first, address = found[0]
    if len({one for _, one in found}) > 1:
        listed = ", ".join(dict.fromkeys(one for _, one in found[:5]))
        yield PageFinding(
            "advice",
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
    """What the page doesn't name. `has` are the relations that it has, with whatever address, `user` whose page it is,
    if known; a page that `is_lent` by this server has no place to post and no line that its user could add.
    """
    ours = base or "https://this-server.example"
    if "microsub" not in has:
        yield PageFinding(
            "problem",
            "microsub",
            "the page doesn't say where you read",
            f"Add {microsub_line(ours, user or 'YOUR-NAME').html}",
            ALL,
        )
    older = [name for name in ("authorization_endpoint", "token_endpoint") if name not in has]
    if older and "indieauth-metadata" in has:
        yield PageFinding(
            "problem",
            "provider",
            f"the page names no {' and no '.join(older)}, and many apps don't read indieauth-metadata",
            "Add these lines too, with the addresses that the provider's metadata has.",
            ALL,
        )
    elif older:
        lines = "\n".join(one.html for one in provider_lines(ours))
        yield PageFinding(
            "problem",
            "provider",
            f"the page doesn't say who vouches for you: no indieauth-metadata, no {' and no '.join(older)}",
            f"Add the lines of your provider, or those of this server, if it is to be that:\n{lines}",
            (*ALL, HERE),
        )
    if "indieauth-metadata" not in has and not older:
        yield PageFinding(
            "advice",
            "indieauth-metadata",
            "the page names its provider the older way only, so nobody can check that an answer is that provider's",
            "If your provider has a metadata document, add its line with rel=indieauth-metadata.",
            (HERE,),
        )
    if "micropub" not in has and not is_lent:
        yield PageFinding(
            "advice",
            "micropub",
            "the page names no micropub endpoint; these apps refuse to sign in without one",
            "Add a line with rel=micropub for where you post. If you only read, any address of your own will do.",
            WANT_MICROPUB,
        )


def query_finding(microsub: str) -> Iterable[PageFinding]:
    """An endpoint with a question mark in it."""
    if "?" in microsub:
        yield PageFinding(
            "advice",
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
    return PageFinding("advice", name, f"the app finds {seen or 'none'} here: {why}", fix, (ANDROID,))


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
