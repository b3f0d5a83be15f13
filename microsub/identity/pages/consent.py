"""The page on which users decide about an app's access, and the reply to the app.

Specs: https://indieauth.spec.indieweb.org/#authorization, RFC 6749 (section 4.1), RFC 9207, RFC 9700 (section 4).
Anybody can be a client here, so no browser is redirected before its user has pressed a button; not even for errors,
since then this server would redirect to any address that an app names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, OAuthRefused, ProfileError, TooManyRequests
from microsub.identity.clients import App
from microsub.identity.pages.visit import PageSite, PageVisit, form, slow_page
from microsub.identity.protocol.clients import (
    AuthorizationRequest,
    ClientInfo,
    Query,
    allowed_redirect,
    answer_url,
    is_loopback_redirect,
    may_be_asked,
    read_asked,
    read_target,
)
from microsub.identity.protocol.documents import MICROPUB, is_own
from microsub.identity.protocol.links import alike, known_me, shown
from microsub.identity.provider import LONGEST_NAME
from microsub.kit.http.headers import origin
from microsub.kit.texts import N_, Sentence
from microsub.model.reader import ALL_SCOPES, NAME, OTHER_NAMES, SAVED

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


def offered_scopes(scopes: Iterable[str], *, elsewhere: bool, search: bool = True) -> list[ScopeText]:
    """The permissions among `scopes` that can be granted, those for reading first.

    Others have no meaning here. `elsewhere`: those for posting concern the user's own site, because their page names a
    Micropub endpoint. `search`: this server has search.
    """
    asked = list(scopes)
    texts = {**_here(search=search), "profile": _PROFILE_TEXT}
    reading = [(name, text) for name in asked if (text := texts.get(OTHER_NAMES.get(name, name)))]
    posting = _AT_ONES_SITE if elsewhere else _IN_A_CHANNEL
    return reading + [(name, text) for name in asked if (text := posting.get(name))]


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


async def app_behind(visit: PageVisit, next_: str) -> App | None:
    """The app of the authorization request, if `path` after the sign-in is one.

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
        app = await visit.site.identity.provider.clients.find(target.client, visit.asker)
    except TooManyRequests:
        app = App(ClientInfo(target.client))
    return shown_app(app, target.redirect)


def shown_app(app: App, redirect: str) -> App | None:
    """`app` as it may be shown if the reply goes to `redirect`.

    None if it must not go there. Pure. Programs on users' machines listen at a loopback address with any port (RFC
    8252, 7.3). If the app publishes no redirect addresses, or they can't be fetched, nothing proves that the program is
    this app. The reply stays on the user's own machine, so the user may decide; but the program isn't shown with the
    app's name and logo.
    """
    if allowed_redirect(app.info, redirect):
        return app
    if may_be_asked(app.info.id) and not app.info.redirect_uris and is_loopback_redirect(redirect):
        return App(ClientInfo(app.info.id), is_claimed=True)
    return None


CONSENT = "/auth/consent"
NEW_CHANNEL = "+"
"""The form value for a new channel, different from every uid."""

_FIELDS = (
    *("client_id", "redirect_uri", "state", "response_type"),
    *("scope", "code_challenge", "code_challenge_method", "me"),
)


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [slow_page(site, AUTHORIZATION_PATH, _ask), form(site, CONSENT, _answer)]


async def _ask(visit: PageVisit) -> Response:
    """Show the app and the access that it requests."""
    try:
        query = request_parameters(visit.request.url.query)
        target = read_target(query)
    except InvalidRequest as problem:
        return _not_served(visit, problem.description)
    hint = query.get("me", [""])[0]
    session = visit.require_session(**({"me": hint} if hint else {}))
    found, app = await _app(visit, session.user, target)
    if app is None:
        return _not_served(visit, _wrong_target(found, target.redirect))
    try:
        asked = read_asked(query)
    except OAuthRefused as problem:
        return _told(visit, app, target, problem)
    granted = await visit.site.identity.provider.apps(session.user)
    before = next((one for one in granted if one.client == asked.client), None)
    elsewhere = await _posts_elsewhere(visit, asked, session.me)
    posts_here = not elsewhere and not _IN_A_CHANNEL.keys().isdisjoint(asked.scopes)
    scopes = offered_scopes(asked.scopes, elsewhere=elsewhere, search=visit.site.services.post_search is not None)
    return visit.page(
        "authorize.html",
        # Chrome applies the policy to every redirect after the form, and apps redirect to further addresses of theirs.
        form_to=[f"{asked.redirect.partition(':')[0].lower()}:"],
        images=["data:"] if app.logo else [],
        why="",
        app=app,
        place=_place(asked.redirect),
        scopes=scopes,
        new={name for name, _ in scopes} - before.scopes if before else (),
        channels=await _channels(visit, session.user) if posts_here else [],
        only_posts=posts_here and _HERE.keys().isdisjoint(asked.scopes),
        before=before.last if before else None,
        fields={name: query[name][0] for name in _FIELDS if name in query},
        other=shown(asked.me) if asked.me and not alike(asked.me, session.me) else "",
        action=CONSENT,
    )


async def _answer(visit: PageVisit) -> Response:
    """Handle the pressed button."""
    session, provider = visit.require_session(), visit.site.identity.provider
    try:
        asked = read_asked({name: visit.form.getlist(name) for name in _FIELDS if name in visit.form})
    except OAuthRefused as problem:
        raise InvalidRequest(problem.description) from None
    found, app = await _app(visit, session.user, asked)
    if app is None:
        return _not_served(visit, _wrong_target(found, asked.redirect))
    await visit.look()  # the request to the app takes time, in which the session may end
    visit.require_session()
    answer: dict[str, str | None] = {"state": asked.state, "iss": visit.base}
    if visit.form.text("decision") != "allow":
        provider.deny(session.user, asked)
        answer = {"error": "access_denied", "error_description": "the person has refused", **answer}
    else:
        chosen = set(visit.form.getlist("grant")).intersection(asked.scopes)
        source = ""
        if not chosen.isdisjoint(_IN_A_CHANNEL) and not await _posts_elsewhere(visit, asked, session.me):
            # Without a channel nothing can be posted, but the reply still names the scopes, since IndiePass for iOS
            # fails without `create`.
            source = await _source(visit, session.user, app)
        code = await provider.agree(session.user, asked, app, chosen, visit.now, source=source)
        answer = {"code": code, **answer, "me": _me_told(asked.me, session.me)}
    return visit.leave(answer_url(asked.redirect, answer))


async def _channels(visit: PageVisit, user: str) -> list[tuple[str, str]]:
    """The channels into which the app could post, with their names."""
    found = await visit.site.services.channels.list(user)
    return [(channel.uid, channel.name) for channel in found if channel.uid != SAVED]


async def _source(visit: PageVisit, user: str, app: App) -> str:
    """The source with which the app posts into the channel that the user chose or created; empty for none."""
    services, uid, name = visit.site.services, visit.form.text("channel"), visit.form.text("new_channel")
    quotas = await services.identity.quotas.of(user)
    if uid == NEW_CHANNEL and name:
        uid = (await services.channels.create(user, name, visit.now, most=quotas.channels or 0)).uid
    elif not NAME.match(uid):
        return ""
    client, shown_name = app.info.id, app.title[:LONGEST_NAME]
    known = await services.sources.of_app(user, client, uid)
    most = quotas.sources or 0
    made = known or await services.sources.create(user, uid, shown_name, visit.now, app=client, most=most)
    services.changed()
    return made.id


async def _app(visit: PageVisit, user: str, target: AuthorizationRequest) -> tuple[App, App | None]:
    """The app of the request, as it is and as it may be shown.

    Raises TooManyRequests if apps have sent the user here too often.
    """
    clients = visit.site.identity.provider.clients
    if clients.would_ask(target.client):
        await visit.site.identity.consents.count(user, visit.now)
    found = await clients.find(target.client, visit.asker)
    return found, shown_app(found, target.redirect)


async def _posts_elsewhere(visit: PageVisit, asked: AuthorizationRequest, me: str) -> bool:
    """Whether the app wants to post, and the user's page names a Micropub endpoint."""
    if _AT_ONES_SITE.keys().isdisjoint(asked.scopes) or is_own(me, visit.base):
        return False  # the page that this server provides names this server
    try:
        profile = await visit.site.identity.profiles.discover(me)
    except (InvalidRequest, ProfileError):
        return False
    return profile.endpoints.micropub not in {None, f"{visit.base}{MICROPUB}", f"{visit.base}{MICROPUB}/"}


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
    """An error in the request of which the app can be notified, if the user agrees."""
    # In the characters that RFC 6749 allows (section 4.1.2.1).
    plain = "".join(char if 0x20 <= ord(char) <= 0x7E and char not in '"\\' else "'" for char in problem.description)
    answer = {"error": problem.code, "error_description": plain}
    back = answer_url(target.redirect, {**answer, "state": target.state, "iss": visit.base})
    why, place = problem.description, _place(target.redirect)
    return visit.page("authorize.html", 400, app=app, why=why, place=place, back=back)


def _wrong_target(app: App, redirect: str) -> str:
    values = {"target": shown(redirect), "app": app.info.id}
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
