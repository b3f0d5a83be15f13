"""The page on which users decide about an app's access, and the reply to the app.

Specs: https://indieauth.spec.indieweb.org/#authorization, RFC 6749 (section 4.1), RFC 9207, RFC 9700 (section 4).
Anybody can be a client here, so no browser is redirected before its user has pressed a button; not even for errors,
since then this server would redirect to any address that an app names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest, OAuthRefused, ProfileError, TooManyRequests
from microsub.base.identifiers import alike, known_me, shown
from microsub.base.texts import N_, Sentence
from microsub.identity.app_channels import AppChannels
from microsub.identity.clients import ClientApps, ConsentLimit
from microsub.identity.limits import PROFILE_RECENT
from microsub.identity.pages.visits import asker
from microsub.identity.profiles import Profiles
from microsub.identity.protocol.clients import (
    App,
    AuthorizationRequest,
    Query,
    allowed_redirect,
    answer_url,
    is_loopback_redirect,
    may_be_asked,
    read_asked,
    read_target,
)
from microsub.identity.protocol.documents import PROFILE_SCOPE, is_own
from microsub.identity.provider import GrantedApp, IndieAuthProvider
from microsub.model.reader import ALL_SCOPES, OTHER_NAMES, meant
from microsub.web.headers import origin
from microsub.web.paths import MICROPUB
from microsub.web.routes import form, slow_page
from microsub.web.visit import PageSite, PageVisit

_HERE = {
    "read": N_("Read your channels and posts, search, and mark posts as read."),
    "follow": N_("Follow and unfollow feeds."),
    "mute": N_("Mute and unmute people."),
    "block": N_("Block and unblock people. The posts of blocked people are removed."),
    "channels": N_("Create, rename, reorder and delete channels."),
}
_WITHOUT_SEARCH = {"read": N_("Read your channels and posts, and mark posts as read.")}
_AT_ONES_SITE = {
    "create": N_("Publish posts on your site."),
    "draft": N_("Save drafts of posts on your site."),
    "update": N_("Change posts on your site."),
    "delete": N_("Delete posts on your site."),
    "undelete": N_("Restore deleted posts on your site."),
    "media": N_("Upload pictures and other files to your site."),
    "post": N_("Publish posts on your site."),
}
_IN_A_CHANNEL = {
    "create": N_("Post to the channel that you choose below."),
    "update": N_("Edit its own posts there."),
    "delete": N_("Delete its own posts there."),
    "undelete": N_("Restore its own deleted posts there."),
    "media": N_("Store pictures and other files for its posts on this server."),
    "post": N_("Post to the channel that you choose below."),
}
_PROFILE_TEXT = N_("See your user name on this server.")


ScopeText = tuple[str, str]
"""A permission, and its description."""


PostsTo = Literal["site", "channel", "nowhere"]
"""Where an app posts: on its user's site, or into a channel here; or it asks for nothing, or finds no endpoint."""


def offered_scopes(
    asked: Collection[str], posts_to: PostsTo, *, search: bool = True
) -> tuple[list[ScopeText], list[ScopeText]]:
    """What a user can grant of the `asked` scopes, for reading and for posting; others have no meaning here.

    `search`: this server has search.
    """
    texts = {**_here(search=search), "profile": _PROFILE_TEXT}
    posting: Mapping[str, str] = {"site": _AT_ONES_SITE, "channel": _IN_A_CHANNEL, "nowhere": {}}[posts_to]
    if posts_to == "channel" and "create" in asked:
        posting = {name: text for name, text in posting.items() if name != "post"}  # the older name of `create`
    reading = [(name, text) for name in asked if (text := texts.get(OTHER_NAMES.get(name, name)))]
    return reading, [(name, text) for name in asked if (text := posting.get(name))]


def token_scopes(*, search: bool) -> list[ScopeText]:
    """The permissions that a token of this server can have."""
    here = _here(search=search)
    return [(name, here[name]) for name in ALL_SCOPES]


def _here(*, search: bool) -> Mapping[str, str]:
    return _HERE if search else _HERE | _WITHOUT_SEARCH


AUTHORIZATION_PATH = "/auth"
MAX_QUERY = 8192
MAX_FIELDS = 100


def request_parameters(query: str) -> Query:
    """The query of an authorization request. Raises InvalidRequest if it is too long."""
    if len(query) > MAX_QUERY or query.count("&") > MAX_FIELDS:
        raise InvalidRequest("it is too long")
    return parse_qs(query)


async def app_behind(clients: ClientApps, next_: str, visit: PageVisit) -> App | None:
    """The app of the authorization request, if the path `next_` after the sign-in is one.

    None for other paths, and for a request whose reply wouldn't go to that app.
    """
    path, _, query = next_.partition("?")
    if path != AUTHORIZATION_PATH:
        return None
    try:
        target = read_target(request_parameters(query))
    except InvalidRequest:
        return None
    try:
        app = await clients.find(target.client, asker(visit))
    except TooManyRequests:
        app = App(target.client)
    return shown_app(app, target.redirect)


def shown_app(app: App, redirect: str) -> App | None:
    """`app` as it may be shown if the reply goes to `redirect`.

    None if it must not go there. Pure. Programs on users' machines listen at a loopback address with any port (RFC
    8252, 7.3). If the app publishes no redirect addresses, or they can't be fetched, nothing proves that the program is
    this app. The reply stays on the user's own machine, so the user may decide; but the program isn't shown with the
    app's name and logo.
    """
    if allowed_redirect(app, redirect):
        return app
    if may_be_asked(app.id) and not app.redirect_uris and is_loopback_redirect(redirect):
        return App(app.id, is_claimed=True)
    return None


CONSENT = "/auth/consent"

_FIELDS = (
    *("client_id", "redirect_uri", "state", "response_type"),
    *("scope", "code_challenge", "code_challenge_method", "me"),
)


class ConsentPages:
    """The page for a request, and its answer. `has_search`: this server has search."""

    def __init__(
        self,
        provider: IndieAuthProvider,
        profiles: Profiles,
        consents: ConsentLimit,
        channels: AppChannels,
        *,
        has_search: bool,
    ) -> None:
        self._provider = provider
        self._profiles = profiles
        self._consents = consents
        self._channels = channels
        self._has_search = has_search

    def routes(self, site: PageSite) -> list[Route]:
        """The routes of these pages."""
        return [slow_page(site, AUTHORIZATION_PATH, self._ask), form(site, CONSENT, self._answer, self._ask_again)]

    async def _ask(self, visit: PageVisit) -> Response:
        """Show the app and the access that it requests."""
        try:
            return await self._asked_page(visit, request_parameters(visit.request.url.query))
        except InvalidRequest as problem:
            return _not_served(visit, problem.description)

    async def _ask_again(self, visit: PageVisit) -> Response:
        """Show the page as it was filled in, with the problem."""
        return await self._asked_page(visit, _sent(visit))

    async def _asked_page(self, visit: PageVisit, query: Query) -> Response:
        """The page for a request. Raises InvalidRequest if the app can't be notified of its error."""
        target = read_target(query)
        hint = query.get("me", [""])[0]
        session = visit.require_session(**({"me": hint} if hint else {}))
        found, app = await self._app(visit, session.user, target)
        if app is None:
            return _not_served(visit, _wrong_target(found, target.redirect))
        try:
            asked = _read(query)
        except OAuthRefused as problem:
            return _told(visit, app, target, problem)
        granted = await self._provider.apps(session.user)
        before = next((one for one in granted if one.client == asked.client), None)
        posts_to = await self._posts_to(visit, asked, session.me)
        reading, posting = offered_scopes(asked.scopes, posts_to, search=self._has_search)
        offered = _names(reading, posting)
        return visit.page(
            "authorize.html",
            # Chrome applies the policy to every redirect after the form, and apps redirect to further addresses.
            form_to=[f"{asked.redirect.partition(':')[0].lower()}:"],
            images=["data:"] if app.picture else [],
            why="",
            app=app,
            place=_place(asked.redirect),
            reading=reading,
            posting=posting,
            posts_to=posts_to,
            # Such an app finds no endpoint, however it is allowed.
            is_kept_out=posts_to == "nowhere" and not _AT_ONES_SITE.keys().isdisjoint(asked.scopes),
            ticked=_ticked(visit, _names(reading), offered, posts_to, before),
            target=await self._choice(visit, session.user, app) if posts_to == "channel" else None,
            new=offered - before.scopes if before else (),
            before=before.last if before else None,
            fields={name: query[name][0] for name in _FIELDS if name in query},
            other=shown(asked.me) if asked.me and not alike(asked.me, session.me) else "",
            action=CONSENT,
        )

    async def _answer(self, visit: PageVisit) -> Response:
        """Handle the pressed button."""
        session = visit.require_session()
        try:
            asked = _read(_sent(visit))
        except OAuthRefused as problem:
            raise InvalidRequest(problem.description) from None
        found, app = await self._app(visit, session.user, asked)
        if app is None:
            return _not_served(visit, _wrong_target(found, asked.redirect))
        await visit.look()  # the request to the app takes time, in which the session may end
        visit.require_session()
        answer: dict[str, str | None] = {"state": asked.state, "iss": visit.base}
        if visit.form.text("decision") != "allow":
            self._provider.deny(session.user, asked)
            answer = {"error": "access_denied", "error_description": "the person has refused", **answer}
        else:
            posts_to = await self._posts_to(visit, asked, session.me)
            offered = _names(*offered_scopes(asked.scopes, posts_to, search=self._has_search))
            chosen, source = offered.intersection(visit.form.getlist("grant")), ""
            if posts_to == "channel" and not chosen.isdisjoint(_IN_A_CHANNEL):
                uid, name = visit.form.text("channel"), visit.form.text("new_channel")
                source = await self._channels.source(session.user, app, uid, name, visit.now)
                if not source:
                    chosen = chosen.difference(_IN_A_CHANNEL)
            code = await self._provider.agree(session.user, asked, app, chosen, visit.now, source=source)
            answer = {"code": code, **answer, "me": _me_told(asked.me, session.me)}
        return visit.leave(answer_url(asked.redirect, answer))

    async def _choice(self, visit: PageVisit, user: str, app: App) -> tuple[Sequence[tuple[str, str]], str, str]:
        """The choice of a channel, as sent if there was a problem; see `AppChannels.choice`."""
        if visit.problem is None:
            return await self._channels.choice(user, app)
        offered = await self._channels.offered(user)
        return offered, visit.form.text("channel"), visit.form.text("new_channel")

    async def _app(self, visit: PageVisit, user: str, target: AuthorizationRequest) -> tuple[App, App | None]:
        """The app of the request, as it is and as it may be shown.

        Raises TooManyRequests if apps have sent the user here too often.
        """
        clients = self._provider.clients
        if clients.would_ask(target.client):
            await self._consents.count(user, visit.now)
        found = await clients.find(target.client, asker(visit))
        return found, shown_app(found, target.redirect)

    async def _posts_to(self, visit: PageVisit, asked: AuthorizationRequest, me: str) -> PostsTo:
        """The place where the app will post: the endpoint that the user's page names."""
        if _AT_ONES_SITE.keys().isdisjoint(asked.scopes):
            return "nowhere"
        if is_own(me, visit.base):
            return "channel"  # the page that this server provides names this server
        try:
            profile = await self._profiles.discover(me)
            if "micropub" not in profile.endpoints:  # people add the line after they read this error
                profile = await self._profiles.discover(me, max_age=PROFILE_RECENT)
        except (InvalidRequest, ProfileError):
            return "channel"
        named = profile.endpoints.get("micropub")
        if named is None:
            return "nowhere"
        return "channel" if named.removesuffix("/") == f"{visit.base}{MICROPUB}" else "site"


def _sent(visit: PageVisit) -> Query:
    return {name: visit.form.getlist(name) for name in _FIELDS if name in visit.form}


def _read(query: Query) -> AuthorizationRequest:
    """The whole request, with the scopes that the app means. Raises as `read_asked` does."""
    asked = read_asked(query)
    return replace(asked, scopes=meant(asked.scopes))


def _names(*offered: Sequence[ScopeText]) -> frozenset[str]:
    return frozenset(name for scopes in offered for name, _ in scopes)


def _ticked(
    visit: PageVisit,
    reading: frozenset[str],
    offered: frozenset[str],
    posts_to: PostsTo,
    before: GrantedApp | None,
) -> Collection[str]:
    """The scopes whose boxes are ticked: as sent, or all except those that let a reader app post into a channel."""
    if visit.problem is not None:
        return visit.form.getlist("grant")
    if posts_to != "channel" or reading <= {PROFILE_SCOPE}:
        return offered
    kept = before.scopes if before is not None and before.sources else frozenset()
    return reading | kept


def _me_told(asked: str, me: str) -> str:
    """`me` for the redirect, which older apps read first.

    Some look the user up by its exact text, so it is written as in the app's request if that can only mean this user.
    """
    return asked if asked and alike(asked, me) else known_me(me) or me


def _not_served(visit: PageVisit, why: str) -> Response:
    """An error that is shown only to the user, because the app's address isn't trustworthy."""
    text = N_("An app sent you here, but its request is invalid: {why}. This is the app's mistake, not yours.")
    return visit.message(N_("The app’s request is invalid"), Sentence(text, why=why), "app refused", 400)


def _told(visit: PageVisit, app: App, target: AuthorizationRequest, problem: OAuthRefused) -> Response:
    """An error in the request; the app can be notified of it, if the user agrees."""
    # In the characters that RFC 6749 allows (section 4.1.2.1).
    plain = "".join(char if 0x20 <= ord(char) <= 0x7E and char not in '"\\' else "'" for char in problem.description)
    answer = {"error": problem.code, "error_description": plain}
    back = answer_url(target.redirect, {**answer, "state": target.state, "iss": visit.base})
    why, place = problem.description, _place(target.redirect)
    return visit.page("authorize.html", 400, app=app, why=why, place=place, back=back)


def _wrong_target(app: App, redirect: str) -> str:
    values = {"target": shown(redirect), "app": app.id}
    if app.answered:
        return Sentence(
            "it wants to send you to '{target}', which '{app}' doesn't list among its redirect URLs", **values
        )
    text = N_(
        "it wants to send you to '{target}', which isn't at '{app}', and '{app}' could not be fetched to check this"
    )
    return Sentence(text, **values)


def _place(redirect: str) -> str:
    """A short name for a redirect target: an origin, or an app on the user's own device."""
    scheme = redirect.partition(":")[0].lower()
    return (
        origin(redirect)
        if scheme in {"http", "https"}
        else Sentence("an app on this device ({scheme}:)", scheme=scheme)
    )
