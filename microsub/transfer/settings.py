"""Reads the settings of channels in lists of feeds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import orjson
from pydantic import TypeAdapter, ValidationError

from microsub.model.settings import OwnChannelSettings


@cache
def _settings_model() -> TypeAdapter[OwnChannelSettings]:
    return TypeAdapter(OwnChannelSettings)


def read_settings(texts: Mapping[str, str]) -> OwnChannelSettings:
    """The inverse of `_written`. Raises ValueError for invalid values."""
    given = {name: text if name == "unread" else orjson.loads(text) for name, text in texts.items()}
    if not given:
        return OwnChannelSettings()
    try:
        return _settings_model().validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
