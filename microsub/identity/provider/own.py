"""Which addresses are our own, and what we say of ourselves as an IndieAuth server, so that nobody is asked over HTTP
who sits in the same process. Pure.
"""

from __future__ import annotations

from microsub.identity.protocol.identifiers import identifier
from microsub.identity.protocol.metadata import ServerMetadata


def is_own(url: str | None, base: str) -> bool:
    """Whether `url` lies under `base`, the address of this server without a slash at its end."""
    if url is None:
        return False
    try:
        there, here = identifier(url.partition("#")[0]), identifier(base)
    except ValueError:
        return False
    folder = here.path.rstrip("/")
    return there.origin == here.origin and (there.path == folder or there.path.startswith(f"{folder}/"))


def own_metadata(base: str) -> ServerMetadata:
    """What the metadata document of the server at `base` says, as far as signing in and checking tokens need it."""
    return ServerMetadata(
        issuer=base,
        authorization_endpoint=f"{base}/auth",
        token_endpoint=f"{base}/token",
        introspection_endpoint=f"{base}/introspect",
        revocation_endpoint=f"{base}/revoke",
        userinfo_endpoint=f"{base}/userinfo",
        iss_in_response=True,
    )
