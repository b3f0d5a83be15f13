"""Which addresses are our own, so that nobody is asked over HTTP who sits in the same process. Pure."""

from __future__ import annotations

from microsub.formats.indieauth.identifiers import identifier


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
