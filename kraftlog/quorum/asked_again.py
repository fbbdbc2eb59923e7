"""Methods that are asked the same again and again: their answers are kept with the object.

Where many copies part from each other, each pair of them asks for the same few offsets, and each
answer takes a look at all copies.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

_Words = ParamSpec("_Words")
_Answer = TypeVar("_Answer")

KEPT = 4096
"""So many answers of one method, so that a log that differs everywhere takes no more memory."""


class asked_again(Generic[_Words, _Answer]):
    """A method of a frozen object whose last answers are kept."""

    def __init__(self, method: Callable[Concatenate[Any, _Words], _Answer]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[_Words, _Answer]:
        kept = cast(Callable[_Words, _Answer], lru_cache(KEPT)(partial(self.method, instance)))
        instance.__dict__[self.method.__name__] = kept
        return kept
