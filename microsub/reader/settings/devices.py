"""The page of devices: notifications in this browser, their channels, and the user's other devices."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import Sessions
from microsub.accounts import device as browser_name
from microsub.base.errors import NotFound
from microsub.base.texts import N_
from microsub.model.reader import GLOBAL, NOTIFICATIONS, SAVED
from microsub.reader.channel_list import ChannelLink, ChannelLinks
from microsub.reader.frame import ReaderSite
from microsub.reader.settings.menu import DEVICES
from microsub.web.routes import form, page
from microsub.web.visit import PageVisit
from microsub.webpush import Device, Devices

_DONE = {
    "on": N_("Notifications are on for this device."),
    "chosen": N_("Done."),
    "off": N_("Notifications are off for that device."),
    "test": N_("A test notification arrives within 30 seconds."),
}


def routes(reader: ReaderSite, devices: Devices, sessions: Sessions) -> list[Route]:
    """The routes of this module."""
    site, shown = reader.site, partial(_devices, reader, devices, sessions)
    return [
        page(site, DEVICES, shown),
        form(site, DEVICES, partial(_tell, reader, devices), shown),
        form(site, f"{DEVICES}/test", partial(_test, reader, devices), shown),
        form(site, f"{DEVICES}/end", partial(_end, reader, devices)),
    ]


async def _devices(reader: ReaderSite, devices: Devices, sessions: Sessions, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    here, everywhere = visit.require_session().id, await reader.links(visit)
    places = [link for link in everywhere if link.uid not in {GLOBAL, SAVED}]
    signed_in = {one.id for one in await sessions.all(user)}
    known = await devices.all(user)
    await devices.remove(user, [device.id for device, _ in known if device.id not in signed_in])
    own = next((device for device, _ in known if device.id == here), None)
    chosen = set(own.channels) if own is not None else {NOTIFICATIONS}
    offered = (
        [link for link in places if link.uid == NOTIFICATIONS or link.uid in chosen] if everywhere.is_long else places
    )
    return await visit.long_page(
        "devices.html",
        devices=[(one, state, _names(one, places)) for one, state in known if one.id in signed_in],
        here=here,
        is_told=own is not None,
        chosen=chosen,
        key=(await devices.key()).public,
        places=offered,
        done=_DONE.get(visit.query.get("done", ""), ""),
        channels=everywhere,
    )


def _names(device: Device, places: list[ChannelLink]) -> str:
    chosen = set(device.channels)
    return ", ".join(link.name for link in places if link.uid in chosen)


async def _tell(reader: ReaderSite, devices: Devices, visit: PageVisit) -> Response:
    """Turn on notifications for channels: with the push service's address, or the stored one."""
    user, session = await reader.user(visit), visit.require_session()
    async with visit.turn():
        channels, address = _chosen(visit, await reader.links(visit)), visit.form.text("address")
    if not address:
        await devices.choose(user, session.id, channels, visit.language)
        return visit.go(DEVICES, done="chosen")
    name = browser_name(visit.request.headers.get("user-agent", ""))
    public, secret = visit.form.text("public"), visit.form.text("secret")
    device = Device(session.id, name, address, public, secret, channels, visit.language, visit.now)
    await devices.put(user, device)
    return visit.go(DEVICES, done="on")


def _chosen(visit: PageVisit, everywhere: ChannelLinks) -> list[str]:
    """The uids of the selected channels, including the one named separately. Raises NotFound."""
    known = {link.uid for link in everywhere} - {GLOBAL, SAVED}
    ticked, name = visit.form.getlist("channel"), visit.form.text("also")
    named = everywhere.called(name) if name else None
    if name and named is None:
        raise NotFound(N_("You have no channel with that name."))
    return [uid for uid in dict.fromkeys([*ticked, *([named.uid] if named else [])]) if uid in known]


async def _test(reader: ReaderSite, devices: Devices, visit: PageVisit) -> Response:
    await devices.ask_test(await reader.user(visit), visit.form.text("device"), visit.now)
    return visit.go(DEVICES, done="test")


async def _end(reader: ReaderSite, devices: Devices, visit: PageVisit) -> Response:
    await devices.remove(await reader.user(visit), [visit.form.text("device")])
    return visit.go(DEVICES, done="off")
