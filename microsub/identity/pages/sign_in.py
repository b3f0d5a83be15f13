"""The sign-in page: by another provider, or by a password or passkey of this server.

Also the page of a one-time link, on which users choose a password or passkey; and this server's description as a client
of other providers.

The link's code is in the fragment, so that it is in no log and no `Referer`; a script moves it into the forms and
removes it from the address. Without scripts, users copy it into the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import orjson
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import InvitationSpent, UserQuotas, owner_in
from microsub.base.errors import NotFound, SignInFailed
from microsub.base.texts import N_, Sentence
from microsub.identity.local_sign_in import INVITATION_PATH, LocalSignIn
from microsub.identity.pages.consent import app_behind
from microsub.identity.pages.visits import (
    can_use_passkeys,
    chosen_password,
    has_hosted_profile,
    next_path,
    passkey_answer,
    passkey_question,
    sign_in,
    sign_in_as,
)
from microsub.identity.protocol.documents import microsub_line, provider_lines
from microsub.identity.provider import IndieAuthProvider
from microsub.identity.sign_in import CALLBACK_PATH, CLIENT_PATH, SignInClient, client_document
from microsub.model.reader import NAME as ACCOUNT
from microsub.web.forms import began_elsewhere
from microsub.web.headers import is_of_this_machine, page_headers
from microsub.web.routes import form, page, public, slow_page
from microsub.web.visit import PageSite, PageVisit

SIGN_IN_PATH = "/sign-in"
PASSWORD_PATH = "/sign-in/local"  # noqa: S105 - a path
PASSKEY_PATH = "/sign-in/passkey"
LINK_PATH = "/sign-in/link"
WELCOME_PATH = "/welcome"
CLIENT_NAME = "Microsub server"


def routes(
    site: PageSite, local: LocalSignIn, signing_in: SignInClient, provider: IndieAuthProvider, quotas: UserQuotas
) -> list[Route]:
    """The routes of this module."""
    again = partial(_ask_again, provider)
    return [
        page(site, SIGN_IN_PATH, partial(_ask, provider)),
        form(site, SIGN_IN_PATH, partial(_begin, signing_in), again),
        slow_page(site, CALLBACK_PATH, partial(_finish, signing_in, local)),
        page(site, PASSWORD_PATH, _former_address),
        form(site, PASSWORD_PATH, partial(_by_password, local), again),
        form(site, f"{PASSKEY_PATH}/begin", partial(_begin_passkey, local)),
        form(site, PASSKEY_PATH, partial(_by_passkey, local), again),
        public(site, CLIENT_PATH, _client),
        page(site, LINK_PATH, partial(_by_link, local)),
        page(site, WELCOME_PATH, partial(_welcome, quotas)),
        page(site, INVITATION_PATH, _invitation),
        form(site, f"{INVITATION_PATH}/look", partial(_look_at_invitation, local)),
        form(site, f"{INVITATION_PATH}/password", partial(_choose_password, local), _invitation),
        form(site, f"{INVITATION_PATH}/passkey/begin", partial(_begin_chosen_passkey, local)),
        form(site, f"{INVITATION_PATH}/passkey", partial(_choose_passkey, local), _invitation),
    ]


async def _by_link(local: LocalSignIn, visit: PageVisit) -> Response:
    """Sign in the user who opens the link shown at the server's start, only on this machine.

    An address that is opened by hand has the site `none`, but `same-origin` once the browser has the service worker.
    """
    is_followed = began_elsewhere(visit.request, visit.base)
    # HEAD is used by link previews, and must not use up the link.
    if is_followed or visit.request.method != "GET" or not is_of_this_machine(visit.request):
        raise NotFound(N_("Open this link on the machine itself, from the terminal or the address bar."))
    person = await local.by_link(visit.query.get("code", ""))
    return await sign_in(local, person, visit, next_="/", known=False)


async def _ask(provider: IndieAuthProvider, visit: PageVisit) -> Response:
    return await _sign_in_page(provider, visit.query.get("me", ""), visit.query, visit)


async def _ask_again(provider: IndieAuthProvider, visit: PageVisit) -> Response:
    return await _sign_in_page(provider, visit.form.text("me") or visit.form.text("who"), visit.form, visit)


async def _sign_in_page(provider: IndieAuthProvider, who: str, values: Mapping[str, str], visit: PageVisit) -> Response:
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
        app=await app_behind(provider.clients, next_, visit),
        failed=isinstance(visit.problem, SignInFailed),
    )


async def _former_address(visit: PageVisit) -> Response:
    """Redirect from the former separate page for passwords."""
    return visit.go(SIGN_IN_PATH, me=visit.query.get("me", ""), next=visit.query.get("next", ""))


async def _begin(signing_in: SignInClient, visit: PageVisit) -> Response:
    me, next_, url = visit.form.text("me"), next_path(visit.form), None
    if not ACCOUNT.match(me):
        me, url = await signing_in.begin(me, base=visit.base, browser=visit.browser, next_=next_, address=visit.address)
    return visit.leave(url) if url is not None else visit.go(SIGN_IN_PATH, me=me, next=next_)


async def _finish(signing_in: SignInClient, local: LocalSignIn, visit: PageVisit) -> Response:
    answer = QueryParams(visit.request.url.query).multi_items()
    browser = visit.browser if visit.had_browser else ""
    try:
        arrived = await signing_in.finish(answer, browser=browser, now=visit.now, address=visit.address)
    except SignInFailed as problem:
        response = visit.message(problem.title, problem.description, "sign-in failed", problem.status)
        # The page's address contains a code that may still be valid.
        response.headers["referrer-policy"] = "no-referrer"
        return response
    response = await sign_in(local, arrived, visit, known=False)
    return visit.go(WELCOME_PATH, next=arrived.next) if arrived.new else response


async def _by_password(local: LocalSignIn, visit: PageVisit) -> Response:
    who, password = visit.form.text("who"), visit.form.get("password", "")
    found = await local.by_password(who, password, visit.address, visit.cookie("devices"), visit.now)
    return await sign_in(local, found, visit, next_=next_path(visit.form))


async def _begin_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    return passkey_question(await local.ask_for_passkey(visit.base, visit.address, visit.now))


async def _by_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    found = await local.by_passkey(visit.base, passkey_answer(visit), visit.address, visit.now)
    return await sign_in(local, found, visit, next_=next_path(visit.form))


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


async def _welcome(quotas: UserQuotas, visit: PageVisit) -> Response:
    session = visit.require_session()
    allowed = await quotas.of(session.user)
    line = microsub_line(visit.base, session.user)
    # Who signs in with this server has no provider of their own, as far as is known.
    has_provider = not session.how.startswith(("with a ", "by the link "))
    named = {
        N_("{number} channels"): allowed.channels,
        N_("{number} feeds"): allowed.feeds,
        N_("{number} tokens"): allowed.tokens,
        N_("{number} requests a minute"): allowed.requests,
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


async def _look_at_invitation(local: LocalSignIn, visit: PageVisit) -> Response:
    """Whether the link is still valid, before the user chooses anything.

    The page's script asks when it has the code.
    """
    await local.invited(visit.form.text("code"))
    return Response(status_code=204, headers=dict(page_headers()))


async def _choose_password(local: LocalSignIn, visit: PageVisit) -> Response:
    user = await local.choose_password(visit.form.text("code"), chosen_password(visit), visit.now)
    return await sign_in_as(local, user, "with a new password", visit, next_=WELCOME_PATH)


async def _begin_chosen_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    return passkey_question(await local.begin_chosen_passkey(visit.base, visit.form.text("code")))


async def _choose_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    code, name, answer = visit.form.text("code"), visit.form.text("name"), passkey_answer(visit)
    user = await local.choose_passkey(visit.base, code, answer, name, visit.now)
    return await sign_in_as(local, user, "with a new passkey", visit, next_=WELCOME_PATH)
