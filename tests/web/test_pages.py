"""Texts of pages: ages."""

from __future__ import annotations

import pytest

from microsub.web.pages import age

HOUR, DAY = 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((-5, "now"), (0, "now"), (59.9, "now"), (60, "1 min"), (HOUR - 1, "59 min"), (HOUR, "1 h")),
        *((DAY, "1 d"), (29 * DAY, "29 d"), (30 * DAY, "1 mo"), (364 * DAY, "12 mo"), (365 * DAY, "1 y")),
    ],
)
def test_an_age_is_in_its_largest_unit(seconds: float, said: str) -> None:
    """Below a minute, and in the future, it is `now`."""
    assert age(seconds) == said
