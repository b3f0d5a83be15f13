"""By what people sign in on our own pages: passkeys that can be read, and handles that lead to their users."""

from __future__ import annotations

from microsub.store import identitykeys
from microsub.store.check.findings import Commands, Findings
from microsub.store.check.seen import Reader, Seen, batched, pairs
from microsub.store.identity.credentials import read_passkey

AREA = "credentials"
_AT_ONCE = 100


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """All users who have something of their own to sign in by, and the index of handles."""
    index = identitykeys.handles()
    listed = pairs((await reader.walk("HSCAN", [index]))[index])
    held: dict[str, str] = {}
    for batch in batched(sorted(user for user, kinds in seen.users.items() if "credentials" in kinds), _AT_ONCE):
        replies = await reader.ask([("HGET", identitykeys.credentials(user), "handle") for user in batch])
        held |= {reply.decode(): user for user, reply in zip(batch, replies, strict=True) if reply}
    if index in seen.wrong:
        held.clear()  # what stands there is put aside first
    for handle, user in held.items():
        if listed.get(handle) != user:
            # Without its line, no passkey of that user is recognised.
            remedy = Commands((("HSET", index, handle, user),))
            found.add(AREA, identitykeys.credentials(user), "a handle that doesn't lead to its user", remedy)
    for handle in listed.keys() - held.keys():
        # A handle is never given out again, so it can't come to mean somebody meanwhile.
        found.add(AREA, f"{index} {handle}", "a handle of nobody", Commands((("HDEL", index, handle),)))
    await _passkeys(reader, seen, found)


async def _passkeys(reader: Reader, seen: Seen, found: Findings) -> None:
    for batch in batched(sorted(user for user, kinds in seen.users.items() if "passkeys" in kinds), _AT_ONCE):
        names = [identitykeys.passkeys(user) for user in batch]
        for key, flat in (await reader.walk("HSCAN", [name for name in names if name not in seen.wrong])).items():
            for credential_id, row in pairs(flat).items():
                found.examined["passkeys"] += 1
                if read_passkey(credential_id, row) is None:
                    remedy = Commands((("HDEL", key, credential_id),))
                    found.add(AREA, f"{key} {credential_id}", "a passkey that can't be read", remedy)
