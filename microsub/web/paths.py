"""Paths of this server that several features name."""

ENDPOINT = "/microsub"
MICROPUB = "/micropub"
PROFILES = "/u"
WEBMENTION = "/webmention"
OUTPUTS = "/feeds"
HUB = "/hub"
"""The path of the hub that all feeds name (`hub`), if there is one."""
