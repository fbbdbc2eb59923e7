"""Filters of a query → what need not be read: replicas, record types, offsets. Spark still applies
every filter itself.

In: `pyspark.sql.datasource` filters, looked at by their class names, so that this file imports no
Spark. Out: a `Pushed`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

_OFFSET_COLUMNS = frozenset({"offset", "base_offset", "last_offset"})


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a query can see: None means any; offsets are inclusive bounds."""

    replicas: frozenset[str] | None = None
    types: frozenset[str] | None = None
    first_offset: int | None = None
    last_offset: int | None = None


def push(filters: Iterable[Any]) -> Pushed:
    """Everything that a list of filters, all of which must hold, rules out."""
    pushed = Pushed()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) == 1 and hasattr(one, "value"):
            pushed = _narrowed(pushed, type(one).__name__, attribute[0], one.value)
    return pushed


def _narrowed(pushed: Pushed, kind: str, name: str, value: Any) -> Pushed:
    values = _values(kind, value)
    if name == "replica" and values is not None:
        return replace(pushed, replicas=_both(pushed.replicas, values))
    if name == "type" and values is not None:
        return replace(pushed, types=_both(pushed.types, values))
    if name in _OFFSET_COLUMNS and isinstance(value, int):
        return _offsets(pushed, kind, name, value)
    return pushed


def _values(kind: str, value: Any) -> frozenset[str] | None:
    if kind in ("EqualTo", "EqualNullSafe") and isinstance(value, str):
        return frozenset([value])
    if kind == "In":
        return frozenset(one for one in value if isinstance(one, str))
    return None


def _both(old: frozenset[str] | None, new: frozenset[str]) -> frozenset[str]:
    return new if old is None else old & new


def _offsets(pushed: Pushed, kind: str, name: str, value: int) -> Pushed:
    """A bound on a batch's base offset says nothing about how far it reaches, and the reverse for
    its last offset.
    """
    first, last = pushed.first_offset, pushed.last_offset
    if kind in ("GreaterThan", "GreaterThanOrEqual", "EqualTo"):
        bound = value + (kind == "GreaterThan")
        first = bound if first is None else max(first, bound)
    if kind in ("LessThan", "LessThanOrEqual", "EqualTo") and name != "last_offset":
        bound = value - (kind == "LessThan")
        last = bound if last is None else min(last, bound)
    return replace(pushed, first_offset=first, last_offset=last)
