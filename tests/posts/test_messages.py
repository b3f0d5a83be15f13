"""Messages between stages stay the same as bytes."""

from __future__ import annotations

import pytest

from microsub.posts.messages import EntriesFound, ItemIncomplete, ItemsStored
from tests.support.posts import NOON, candidate


@pytest.mark.parametrize(
    "message",
    [
        EntriesFound("7", NOON, ()),
        EntriesFound("7", NOON, (), NOON + 0.001),
        EntriesFound(
            "7",
            NOON + 0.123456,
            (candidate("a"), candidate("b", common="t", incomplete=True, extra={"k": "ü"})),
        ),
        EntriesFound("7", NOON, (candidate("undated", at=0.0, author="", link=""),)),
        ItemsStored("7"),
        ItemsStored("7", ("3", "2"), ("1",)),
        ItemsStored("7", ("3",), target=("ann", "home")),
        ItemIncomplete("3", "000000000000001-000000001"),
        ItemIncomplete("3", ""),
    ],
)
def test_a_message_comes_out_as_it_went_in(message):
    """Every field stays the same, empty ones too."""
    assert type(message).of(message.to_fields()) == message


@pytest.mark.parametrize("kind", [EntriesFound, ItemsStored, ItemIncomplete])
def test_invalid_messages_are_refused(kind):
    """A stage raises an error instead of processing half of another message."""
    with pytest.raises((KeyError, ValueError)):
        kind.of({"feed": b"7", "something": b"else"})
