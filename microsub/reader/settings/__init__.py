"""User settings: lists of feeds, output feeds, mutes, sources, webmentions, devices."""

from __future__ import annotations

from starlette.routing import Route

from microsub.reader.settings import devices, incoming, lists, menu, outputs, rules
from microsub.reader.settings.menu import SETTINGS as SETTINGS
from microsub.web.visit import PageSite


def routes(site: PageSite) -> list[Route]:
    """The routes of these pages."""
    features = (menu, lists, outputs, rules, incoming, devices)
    return [route for feature in features for route in feature.routes(site)]
