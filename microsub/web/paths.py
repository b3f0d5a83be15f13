"""Paths of this server that several features name."""

ENDPOINT = "/microsub"
MICROPUB = "/micropub"
PROFILES = "/u"
WEBMENTION = "/webmention"
