"""What people read when Redis refuses: its reason, without the place in our scripts."""

from __future__ import annotations

import pytest
from redis.exceptions import OutOfMemoryError, ResponseError

from microsub.errors import StoreFull
from microsub.redis.failures import translate

SHA = "1bcb3a5d" * 5
REASON = "command not allowed when used memory > 'maxmemory'."


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError(f"{REASON} script: {SHA}, on @user_script:9."),
        ResponseError(f"ERR Error running script (call to f_{SHA}): @user_script:9: @user_script: 9: -OOM {REASON} "),
        OutOfMemoryError(REASON),
    ],
)
def test_the_place_in_a_script_is_left_out(error: Exception) -> None:
    """As Redis 7 and Redis 6 word it."""
    translated = translate(error)
    assert isinstance(translated, StoreFull)
    assert str(translated).strip().removeprefix("Redis refuses writes: ").removeprefix("OOM ") == REASON
