"""What a reader of a table may rely on, declared beside its columns.

A promise is an expectation of Great Expectations: its type and arguments, and why it is there. One
that is critical is broken by a defect of kraftlog alone; one that warns can follow from an input
that changed while it was read. A table that may be large is not read row by row: its promises say
what to count (`contracts.measures`), and the count must be 0. "@name" stands for a list that the
code owns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Values = Sequence[object] | str
CONDITION = "row_condition"


@dataclass(frozen=True, slots=True)
class Promise:
    """One expectation about a table. `counts` says what its column counts, where the table is
    counted and not read.
    """

    expectation: str
    arguments: Mapping[str, Any]
    why: str
    severity: Literal["critical", "warning"] = "critical"
    counts: Mapping[str, Any] | None = None


def expected(expectation: str, why: str, **arguments: Any) -> Promise:
    """Any expectation, by its name."""
    return Promise(f"expect_{expectation}", arguments, why)


def unique(*columns: str, why: str) -> Promise:
    """No two rows have the same values in these columns."""
    if len(columns) == 1:
        return expected("column_values_to_be_unique", why, column=columns[0])
    return expected("compound_columns_to_be_unique", why, column_list=list(columns))


def known(column: str, why: str, **when: Values) -> Promise:
    """No value is null; where another column is named, only in rows in which it has some value."""
    return expected("column_values_to_not_be_null", why, column=column, **_if(when))


def at_least(column: str, least: int, why: str) -> Promise:
    """No value is below a number."""
    return expected("column_values_to_be_between", why, column=column, min_value=least)


def not_below(column: str, other: str, why: str, *, where_both: bool = False) -> Promise:
    """No value is below that of another column; `where_both` are known, if it is said."""
    return expected(
        "column_pair_values_a_to_be_greater_than_b",
        why,
        column_A=column,
        column_B=other,
        or_equal=True,
        **({"ignore_row_if": "either_value_is_missing"} if where_both else {}),
    )


def among(column: str, values: Values, why: str, **when: Values) -> Promise:
    """Every value is one of a list; as `known` has it, only of some rows."""
    return expected("column_values_to_be_in_set", why, column=column, value_set=values, **_if(when))


def _if(when: Mapping[str, Values]) -> dict[str, Any]:
    return {CONDITION: dict(when)} if when else {}


def none(
    name: str, why: str, severity: Literal["critical", "warning"] = "critical", **counts: Any
) -> Promise:
    """A count, under a name, that must be 0: `nulls_in`, `rows_where`, … (`contracts.measures`)."""
    arguments = {"column": name, "max_value": 0}
    return Promise("expect_column_max_to_be_between", arguments, why, severity, counts)
