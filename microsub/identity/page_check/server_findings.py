"""Findings about the servers that a profile page names: provider, Microsub endpoint, feeds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from microsub.fetch import Answered, FetchFailed
from microsub.identity.page_check.report import (
    ALL,
    ANDROID,
    EKSTEREYE,
    HERE,
    MONOCLE,
    LinkLine,
    PageFinding,
    microsub_line,
    provider_lines,
)
from microsub.identity.protocol.identifiers import shown
from microsub.identity.protocol.metadata import ServerMetadata, is_own
from microsub.identity.sign_in.profiles import RedirectTrail
from microsub.kit.identifiers import identifier
from microsub.model.reader import NAME

ENDPOINT = "/microsub"


@dataclass(frozen=True, slots=True)
class CheckedAgainst:
    """What is known of this server: its address, and the `me` of the users whom the asker may know about, by name.

    `everybody` says that these are all users there are.
    """

    base: str | None = None
    people: Mapping[str, str] = field(default_factory=dict)
    everybody: bool = False


def user_in(microsub: str, base: str) -> str | None:
    """The user whom an endpoint of the server at `base` names; empty where it names none; None where it is no endpoint
    of that server.
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
        yield PageFinding("ok", "microsub", f"{microsub}, which is another server's" if here.base else microsub)
        return
    user = user_in(microsub, here.base)
    if user is None:
        yield PageFinding(
            "problem",
            "microsub",
            f"{microsub} is on this server, but no Microsub endpoint",
            f"Name {microsub_line(here.base, user_of(trail, here) or _last_name(microsub) or 'YOUR-NAME').href}",
            ALL,
        )
        return
    if not user:
        yield from _without_name(microsub, here, trail, own_provider=own_provider)
        return
    yield PageFinding("ok", "microsub", f"{microsub}, this server's endpoint for {user}")
    yield from _account(user, here, trail)


def _without_name(
    microsub: str, here: CheckedAgainst, trail: RedirectTrail, *, own_provider: bool
) -> Iterable[PageFinding]:
    base = here.base or ""
    known = user_of(trail, here)
    if own_provider:
        yield PageFinding("ok", "microsub", f"{microsub}, this server's endpoint for anybody with the token")
    else:
        yield PageFinding(
            "advice",
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
        yield PageFinding(
            "problem",
            "account",
            f"there is no user {shown(user)} here; this page is {known}'s",
            f"Write {microsub_line(here.base or '', known).html}",
        )
    elif me is None and here.everybody:
        yield PageFinding(
            "problem",
            "account",
            f"there is no user {shown(user)} here",
            f'Add the user to backend.json, with "me": "{trail.me}".',
        )
    elif me is None and here.people:
        yield PageFinding(
            "problem",
            "account",
            f"the page names the endpoint of {shown(user)}; you are signed in as {', '.join(here.people)}",
            f"Write {microsub_line(here.base or '', next(iter(here.people))).html}",
        )
    elif me is not None and not me:
        yield PageFinding(
            "problem",
            "account",
            f"the user {user} has no 'me' here, so nobody can vouch for them",
            f'Set "me": "{trail.me}" for {user} in backend.json.',
        )
    elif me is not None and me not in trail.names:
        yield PageFinding(
            "problem",
            "account",
            f"the user {user} is {me} here, and this page's address is {trail.me}: tokens for it don't count",
            f'Set "me": "{trail.me}" for {user} in backend.json, or put the lines on {me}.',
        )
    elif me is not None:
        yield PageFinding("ok", "account", f"the user {user} of this server is {me}, which is this page")


def metadata_findings(metadata: ServerMetadata, url: str) -> Iterable[PageFinding]:
    """What a provider says of itself that can be read."""
    yield PageFinding("ok", "indieauth-metadata", f"{url} can be read; the issuer is {metadata.issuer}")
    yield from _issuer_findings(metadata.issuer)
    if "S256" not in metadata.code_challenge_methods_supported:
        yield PageFinding(
            "advice",
            "PKCE",
            "the metadata doesn't say that the provider knows PKCE with S256, which the apps use",
            "Ask for it in the provider: code_challenge_methods_supported.",
            (MONOCLE, ANDROID, HERE),
        )
    if not metadata.iss_in_response:
        yield PageFinding(
            "advice",
            "iss",
            "the provider doesn't name itself in its answers (RFC 9207), so two can be mistaken for each other",
            "Ask for it in the provider: authorization_response_iss_parameter_supported.",
            (HERE,),
        )
    if metadata.introspection_endpoint is None:
        yield PageFinding(
            "advice",
            "introspection",
            "the provider has no introspection endpoint; tokens are checked the older way, at its token endpoint",
            "",
            (HERE,),
        )


def _issuer_findings(issuer: str) -> Iterable[PageFinding]:
    if not issuer.lower().startswith("https:"):
        yield PageFinding(
            "advice",
            "issuer",
            f"the issuer {issuer} isn't https, which the app refuses",
            "Give the provider an https address.",
            (MONOCLE,),
        )


def metadata_failed(url: str, detail: str) -> PageFinding:
    """The document can't be had or used."""
    return PageFinding(
        "problem",
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
            yield PageFinding(
                "advice",
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
    """The relations whose address is on this server and isn't one that it has for that: which needn't be asked about,
    since `own_provider_findings` and `endpoint_findings` say it.
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
            yield PageFinding("ok", line.rel, f"{found}, which is this server's")
            if line.rel == "indieauth-metadata":
                yield from _issuer_findings(base)
        else:
            yield PageFinding(
                "problem", line.rel, f"{found} is on this server, but isn't what it has for that", f"Write {line.html}"
            )


def _advice(meant: LinkLine | None, otherwise: str) -> str:
    return otherwise if meant is None else f"Write {meant.html}, if that is meant. {otherwise}"


def answering_findings(
    about: str, url: str, answer: Answered | FetchFailed, *, private: bool, meant: LinkLine | None = None
) -> Iterable[PageFinding]:
    """Whether anything answers at an endpoint of the provider, which was asked nothing in particular. `meant` is a line
    that is near, or what the provider's metadata has.
    """
    if isinstance(answer, FetchFailed):
        yield PageFinding(
            "problem", about, f"{url} doesn't answer: {answer.detail}", _advice(meant, "Check the address.")
        )
    elif answer.status in {404, 410} or answer.status >= 500:
        fix = _advice(meant, "Check the address, and the provider's log.")
        yield PageFinding("problem", about, f"{url} answers {answer.status}", fix)
    elif not private and url.startswith("http:"):
        yield PageFinding(
            "problem",
            about,
            f"{url} isn't https: codes and tokens could be read on their way, and this server sends none there",
            "Name the https address.",
        )
    else:
        yield PageFinding("ok", about, f"{url} answers")


def microsub_findings(url: str, answer: Answered | FetchFailed, meant: LinkLine | None = None) -> Iterable[PageFinding]:
    """Whether an endpoint answers as one, to who has no token. `meant` is a line that is near."""
    fix = _advice(meant, "Check the address.")
    if isinstance(answer, FetchFailed):
        yield PageFinding("problem", "microsub", f"{url} doesn't answer: {answer.detail}", fix, ALL)
    elif answer.status in {404, 410} or answer.status >= 500:
        yield PageFinding("problem", "microsub", f"{url} answers {answer.status}", fix, ALL)
    elif answer.status not in {400, 401, 403}:
        yield PageFinding(
            "advice", "microsub", f"{url} answers {answer.status} to a request without a token, where 401 was expected"
        )
    else:
        yield PageFinding("ok", "microsub", f"{url} answers, and wants a token")
        if answer.headers.get("access-control-allow-origin") is None:
            yield PageFinding(
                "advice",
                "microsub",
                "the endpoint lets no browser ask from another site (CORS), where the app runs",
                "Let the server send Access-Control-Allow-Origin: *.",
                (EKSTEREYE,),
            )


def feed_findings(feeds: Sequence[str], first: Answered | FetchFailed | None) -> Iterable[PageFinding]:
    """Whether others can follow the page. `first` is what the first feed's address says, None where it is the page."""
    if not feeds:
        yield PageFinding(
            "advice",
            "feeds",
            "the page neither is nor names a feed, so nobody can follow it",
            'Mark up the posts as an h-feed, or add <link rel="alternate" type="application/rss+xml" href="…">.',
        )
    elif isinstance(first, FetchFailed) and first.reason != "too_large":
        yield PageFinding(
            "advice", "feeds", f"{shown(feeds[0])}, which the page names, can't be fetched: {first.detail}"
        )
    elif isinstance(first, Answered) and not 200 <= first.status < 300:
        yield PageFinding("advice", "feeds", f"{shown(feeds[0])}, which the page names, answers {first.status}")
    else:
        yield PageFinding(
            "ok", "feeds", "the page can be followed" + (f": {shown(feeds[0])}" if first is not None else "")
        )
