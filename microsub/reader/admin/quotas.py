"""The admin's page for how much one user may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import Accounts, UserQuotas
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_, Sentence
from microsub.configuration.effective import DeclaredSettings
from microsub.configuration.model import Quotas
from microsub.reader.admin.frame import ADMIN, Guard, shown
from microsub.web.routes import form, page
from microsub.web.visit import PageSite, PageVisit

PATH = f"{ADMIN}/users/{{name}}/quotas"
LABELS: Mapping[str, str] = {
    "channels": N_("Channels"),
    "feeds": N_("Feeds in all channels together"),
    "tokens": N_("Apps and tokens"),
    "requests": N_("Requests in a minute"),
    "rules": N_("Mutes and blocks"),
    "saved": N_("Saved posts"),
    "outputs": N_("Output feeds"),
    "output_items": N_("Posts in one output feed"),
    "sources": N_("Sources"),
    "media": N_("Bytes of files from sources"),
    "posts": N_("Bytes of posts"),
}
_MOST: Mapping[str, int] = {one.name: one.metadata["le"] for one in fields(Quotas)}
_NUMBER = re.compile("[0-9]{1,15}")


def routes(
    site: PageSite,
    admins: Guard,
    accounts: Accounts,
    quotas: UserQuotas,
    settings: DeclaredSettings,
    changed: Callable[[], None],
) -> list[Route]:
    """The page, for admins only. `changed` is called after a change."""
    form_page = admins(partial(_form, accounts, quotas))
    choose = admins(partial(_choose, accounts, quotas, settings, changed))
    return [page(site, PATH, form_page), form(site, PATH, choose, form_page)]


async def _form(accounts: Accounts, quotas: UserQuotas, visit: PageVisit) -> Response:
    name = await _user(accounts, visit)
    levels = await quotas.levels(name)
    return shown(
        visit, "admin-quotas.html", name=name, labels=LABELS, most=_MOST, levels=levels, is_done="done" in visit.query
    )


async def _choose(
    accounts: Accounts,
    quotas: UserQuotas,
    settings: DeclaredSettings,
    changed: Callable[[], None],
    visit: PageVisit,
) -> Response:
    name = await _user(accounts, visit)
    # The form doesn't send the fields that backend.json sets: what was chosen for them applies once it no longer does.
    chosen = {one: _number(one, visit) for one in LABELS if one in visit.form}
    await settings.set_quotas(name, replace((await quotas.levels(name)).chosen, **chosen))
    changed()
    return visit.go(PATH.format(name=name), done="yes")


def _number(name: str, visit: PageVisit) -> int | None:
    """The number in a field; None if it is empty. Raises InvalidRequest."""
    said = visit.form.text(name).strip()
    if not said:
        return None
    if not _NUMBER.fullmatch(said) or int(said) > _MOST[name]:
        text = N_("“{label}” is {said}: expected a whole number from 0 to {most}, or nothing.")
        raise InvalidRequest(Sentence(text, label=Sentence(LABELS[name]), said=said[:40], most=_MOST[name]))
    return int(said)


async def _user(accounts: Accounts, visit: PageVisit) -> str:
    """The user whom the path names. Raises NotFound."""
    name: str = visit.request.path_params["name"]
    if await accounts.user(name) is None:
        raise NotFound(N_("There is no such user."))
    return name
