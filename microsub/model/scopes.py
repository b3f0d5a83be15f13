"""The scopes of Microsub tokens (https://indieweb.org/Microsub-spec#Scopes).

`read` covers all reading and marking; `follow`, `mute`, `block` and `channels` cover the writes of the actions of the
same name. Tokens may carry foreign scopes (`create`, `profile`, …), which mean nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable

from microsub.errors import InvalidRequest

READ = "read"
ALL_SCOPES = (READ, "follow", "mute", "block", "channels")

OTHER_NAMES = {"timeline": READ}
"""What apps ask for under names that the specification doesn't have: Ekstereye asks `create post channels timeline`."""


def understood(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes that a provider has granted, and those of ours that they mean under another name.

    Nothing is added beyond that: who granted an app to post, and not to read, isn't read.
    """
    granted = frozenset(scopes)
    return granted | {OTHER_NAMES[scope] for scope in granted if scope in OTHER_NAMES}


def read_scopes(text: str) -> frozenset[str]:
    """The scopes in `text`, which separates them by spaces.

    Raises InvalidRequest when one isn't a scope by RFC 6749 (visible ASCII without quote and backslash), or none is
    given.
    """
    scopes = text.split()
    for scope in scopes:
        if not all(0x21 <= ord(c) <= 0x7E and c not in '"\\' for c in scope):
            raise InvalidRequest(f"found the scope '{scope}', expected names such as {' '.join(ALL_SCOPES)}")
    if not scopes:
        raise InvalidRequest(f"found no scope, expected one or more of {' '.join(ALL_SCOPES)}")
    return frozenset(scopes)
