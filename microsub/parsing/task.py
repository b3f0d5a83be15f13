"""A parser that features own: a function that reads a foreign document, run in a parser process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, TypeVarTuple, get_args, get_type_hints

R = TypeVar("R")
Arguments = TypeVarTuple("Arguments")


@dataclass(frozen=True, slots=True)
class Task(Generic[R, *Arguments]):
    """A function of a module, which is given a document's body and other arguments by position.

    Its annotations say how arguments and result travel as JSON: text, numbers, bytes, None, and for the result also
    frozen dataclasses of these. A task that isn't `thorough` gives a document the time of the quick lane alone.
    """

    do: Callable[[bytes, *Arguments], R]
    thorough: bool = True

    @property
    def name(self) -> str:
        """The path of the function: `package.module:function`."""
        return f"{self.do.__module__}:{self.do.__name__}"


AnyTask: TypeAlias = Task[Any, *tuple[Any, ...]]


@functools.cache
def result_of(do: Callable[..., Any]) -> Any:
    """The type of a function's result."""
    return get_type_hints(do)["return"]


def bytes_among(do: Callable[..., Any]) -> tuple[bool, ...]:
    """Whether each argument of a function after the body is bytes."""
    hints = [hint for name, hint in get_type_hints(do).items() if name != "return"]
    return tuple(hint is bytes or bytes in get_args(hint) for hint in hints[1:])
