"""The account: who is signed in, where else, and signing out."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import NotFound
from microsub.web.routing import form, page
from microsub.web.session import Visit
from microsub.web.site import Site


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, "/account", _account),
        form(site, "/sign-out", _sign_out),
        form(site, "/account/sessions/end", _end_one),
        form(site, "/account/sessions/end-all", _end_all),
    ]


async def _account(visit: Visit) -> Response:
    session = visit.require_session()
    sessions = await visit.site.identity.sessions.all(session.user)
    apps = await visit.site.identity.granting.apps(session.user)
    return visit.page("account.html", sessions=sessions, apps=apps)


async def _sign_out(visit: Visit) -> Response:
    await visit.sign_out()
    return visit.page("message.html", title="You are signed out", text="This browser is signed out. Others are not.")


async def _end_one(visit: Visit) -> Response:
    session = visit.require_session()
    id_ = visit.form.text("session")
    if id_ == session.id:
        return await _sign_out(visit)
    if not await visit.site.identity.sessions.end(session.user, id_):
        raise NotFound("That session has ended already.")
    return visit.go("/account")


async def _end_all(visit: Visit) -> Response:
    session = visit.require_session()
    ended = await visit.site.identity.sessions.end_all(session.user)
    await visit.sign_out()
    text = f"All {ended} browsers" if ended > 1 else "This browser, the only one,"
    return visit.page(
        "message.html",
        title="You are signed out everywhere",
        text=f"{text} had to let go of your account. Apps that you have let in stay until you shut them out.",
    )
