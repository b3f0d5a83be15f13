"""The sign-in page: by another provider, or by a password or passkey of this server.

Also the page of a one-time link, on which users choose a password or passkey; and this server's description as a client
of other providers.

The link's code is in the fragment, so that it is in no log and no `Referer`; a script moves it into the forms and
removes it from the address. Without scripts, users copy it into the field.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts.credentials import InvitationSpent
from microsub.accounts.grants import owner_in
from microsub.base.errors import NotFound, SignInFailed
from microsub.base.texts import N_, Sentence
from microsub.identity.local_sign_in import INVITATION_PATH, LocalSignIn
from microsub.identity.pages.consent import app_behind
from microsub.identity.pages.visits import (
    can_use_passkeys,
    chosen_password,
    has_hosted_profile,
    passkey_answer,
    passkey_question,
    sign_in,
    sign_in_as,
    sign_in_origin,
)
from microsub.identity.protocol.documents import microsub_line, provider_lines
from microsub.identity.sign_in import CALLBACK_PATH, CLIENT_PATH, client_document
from microsub.model.reader import NAME as ACCOUNT
from microsub.web.headers import is_of_this_machine, own_path, page_headers
from microsub.web.routes import form, page, public, slow_page
from microsub.web.visit import PageSite, PageVisit

SIGN_IN_PATH = "/sign-in"
PASSWORD_PATH = "/sign-in/local"  # noqa: S105 - a path
PASSKEY_PATH = "/sign-in/passkey"
LINK_PATH = "/sign-in/link"
WELCOME_PATH = "/welcome"
CLIENT_NAME = "Microsub server"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, SIGN_IN_PATH, _ask),
        form(site, SIGN_IN_PATH, _begin, _ask_again),
        slow_page(site, CALLBACK_PATH, _finish),
        page(site, PASSWORD_PATH, _former_address),
        form(site, PASSWORD_PATH, _by_password, _ask_again),
        form(site, f"{PASSKEY_PATH}/begin", _begin_passkey),
        form(site, PASSKEY_PATH, _by_passkey, _ask_again),
        public(site, CLIENT_PATH, _client),
        page(site, LINK_PATH, _by_link),
        page(site, WELCOME_PATH, _welcome),
        page(site, INVITATION_PATH, _invitation),
        form(site, f"{INVITATION_PATH}/look", _look_at_invitation),
        form(site, f"{INVITATION_PATH}/password", _choose_password, _invitation),
        form(site, f"{INVITATION_PATH}/passkey/begin", _begin_chosen_passkey),
        form(site, f"{INVITATION_PATH}/passkey", _choose_passkey, _invitation),
    ]


async def _by_link(visit: PageVisit) -> Response:
    """Sign in the user who opens the link shown at the server's start, only on this machine."""
    is_followed = visit.request.headers.get("sec-fetch-site", "none") != "none"
    # HEAD is used by link previews, and must not use up the link.
    if is_followed or visit.request.method != "GET" or not is_of_this_machine(visit.request):
        raise NotFound(N_("Open this link on the machine itself, from the terminal or the address bar."))
    person = await _local(visit).by_link(visit.query.get("code", ""))
    return await sign_in(_local(visit), person, visit, next_="/", known=False)


async def _ask(visit: PageVisit) -> Response:
    return await sign_in_page(visit, visit.query.get("me", ""), visit.query)


async def _ask_again(visit: PageVisit) -> Response:
    return await sign_in_page(visit, visit.form.text("me") or visit.form.text("who"), visit.form)


async def sign_in_page(visit: PageVisit, who: str, values: Mapping[str, str]) -> Response:
    """The sign-in page with all ways.

    `who` is the entered name or address.
    """
    next_ = next_path(values)
    return visit.page(
        "sign-in.html",
        # A form leads to the provider that the user's page names, which can be any host.
        form_to=["https:"] if visit.base.startswith("https:") else ["https:", "http:"],
        who=who,
        next=next_,
        passkeys=can_use_passkeys(visit),
        app=await app_behind(visit, next_),
        failed=isinstance(visit.problem, SignInFailed),
    )


def next_path(values: Mapping[str, str]) -> str:
    """The path to go to after a sign-in: one of ours, or empty."""
    return own_path(values.get("next", "")) or ""


async def _former_address(visit: PageVisit) -> Response:
    """Redirect from the former separate page for passwords."""
    return visit.go(SIGN_IN_PATH, me=visit.query.get("me", ""), next=visit.query.get("next", ""))


async def _begin(visit: PageVisit) -> Response:
    me, next_, url = visit.form.text("me"), next_path(visit.form), None
    if not ACCOUNT.match(me):
        me, url = await visit.site.identity.signing_in.begin(
            me, base=visit.base, browser=visit.browser, next_=next_, address=visit.address
        )
    return visit.leave(url) if url is not None else visit.go(SIGN_IN_PATH, me=me, next=next_)


async def _finish(visit: PageVisit) -> Response:
    answer = QueryParams(visit.request.url.query).multi_items()
    browser = visit.browser if visit.had_browser else ""
    try:
        arrived = await visit.site.identity.signing_in.finish(
            answer, browser=browser, now=visit.now, address=visit.address
        )
    except SignInFailed as problem:
        response = visit.message(problem.title, problem.description, "sign-in failed", problem.status)
        # The page's address contains a code that may still be valid.
        response.headers["referrer-policy"] = "no-referrer"
        return response
    response = await sign_in(_local(visit), arrived, visit, known=False)
    return visit.go(WELCOME_PATH, next=arrived.next) if arrived.new else response


async def _by_password(visit: PageVisit) -> Response:
    who, password = visit.form.text("who"), visit.form.get("password", "")
    found = await _local(visit).by_password(who, password, sign_in_origin(visit), visit.now)
    return await sign_in(_local(visit), found, visit, next_=next_path(visit.form))


async def _begin_passkey(visit: PageVisit) -> Response:
    return passkey_question(await _local(visit).ask_for_passkey(visit.base, sign_in_origin(visit), visit.now))


async def _by_passkey(visit: PageVisit) -> Response:
    found = await _local(visit).by_passkey(visit.base, passkey_answer(visit), sign_in_origin(visit), visit.now)
    return await sign_in(_local(visit), found, visit, next_=next_path(visit.form))


async def _client(visit: PageVisit) -> Response:
    """This server's client description: JSON, or a page with an h-app for older servers and people."""
    accept = visit.request.headers.get("accept", "")
    logo = visit.site.pages.static("icon.svg").removeprefix(visit.site.address.prefix)
    document = client_document(visit.base, CLIENT_NAME, logo)
    if "text/html" in accept and "application/json" not in accept:
        response = visit.page("client.html", client=document)
    else:
        response = Response(orjson.dumps(document), media_type="application/json")
        response.headers["x-content-type-options"] = "nosniff"
    response.headers["cache-control"] = "public, max-age=3600"
    response.headers["vary"] = "Accept"
    return response


async def _welcome(visit: PageVisit) -> Response:
    session = visit.require_session()
    quotas = await visit.site.identity.quotas.of(session.user)
    line = microsub_line(visit.base, session.user)
    # Who signs in with this server has no provider of their own, as far as is known.
    has_provider = not session.how.startswith(("with a ", "by the link "))
    named = {
        N_("{number} channels"): quotas.channels,
        N_("{number} feeds"): quotas.feeds,
        N_("{number} tokens"): quotas.tokens,
        N_("{number} requests a minute"): quotas.requests,
    }
    return visit.page(
        "welcome.html",
        is_hosted=has_hosted_profile(visit),
        lines=[one.html for one in ((line,) if has_provider else (*provider_lines(visit.base), line))],
        has_provider=has_provider,
        header=f'Link: <{line.href}>; rel="{line.rel}"',
        next=next_path(visit.query),
        quotas=[visit.translate(Sentence(text, number=number)) for text, number in named.items() if number],
    )


# --- one-time links -------------------------------------------------------------------------------------------------


async def _invitation(visit: PageVisit) -> Response:
    code = visit.form.text("code")
    return visit.page(
        "enrol.html",
        code=code,
        spent=isinstance(visit.problem, InvitationSpent),
        who=owner_in(code) or "",
        passkeys=can_use_passkeys(visit),
    )


async def _look_at_invitation(visit: PageVisit) -> Response:
    """Whether the link is still valid, before the user chooses anything.

    The page's script asks when it has the code.
    """
    await _local(visit).invited(visit.form.text("code"))
    return Response(status_code=204, headers=dict(page_headers()))


async def _choose_password(visit: PageVisit) -> Response:
    user = await _local(visit).choose_password(visit.form.text("code"), chosen_password(visit), visit.now)
    return await sign_in_as(_local(visit), user, "with a new password", visit, next_=WELCOME_PATH)


async def _begin_chosen_passkey(visit: PageVisit) -> Response:
    return passkey_question(await _local(visit).begin_chosen_passkey(visit.base, visit.form.text("code")))


async def _choose_passkey(visit: PageVisit) -> Response:
    code, name, answer = visit.form.text("code"), visit.form.text("name"), passkey_answer(visit)
    user = await _local(visit).choose_passkey(visit.base, code, answer, name, visit.now)
    return await sign_in_as(_local(visit), user, "with a new passkey", visit, next_=WELCOME_PATH)


def _local(visit: PageVisit) -> LocalSignIn:
    return visit.site.identity.local
