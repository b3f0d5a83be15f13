"""Checks of values for pydantic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_core import CoreSchema, PydanticCustomError, core_schema


def before(change: Callable[[Any], Any], schema: CoreSchema) -> CoreSchema:
    """A schema for values that `change` has prepared."""
    return core_schema.no_info_before_validator_function(change, schema)


def after(check: Callable[[Any], Any], schema: CoreSchema) -> CoreSchema:
    """A schema for values that `check` accepts; it raises `misfit`."""
    return core_schema.no_info_after_validator_function(check, schema)


def misfit(problem: str, expected: str) -> PydanticCustomError:
    """The error of a text of the wrong form."""
    return PydanticCustomError("form", "form", {"problem": problem, "expected": expected})
