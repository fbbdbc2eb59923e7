"""Which batches of a window are remarkable, found by columns: for logs too long to decode record by
record.

In: a window. Out: the ids of batches whose records a check may ask for (control records,
transactions, faults, records that break a rule), and how many records of each type there are. What
is remarkable is then decoded by the definition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.audit.content import TRANSACTION_TYPES
from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.log.segment import Window


@dataclass(frozen=True, slots=True)
class Detected:
    """Ids of remarkable batches; per record type the count, and (batch position, record index) of
    the first.
    """

    remarkable: frozenset[str]
    counts: dict[str, int]
    first_of_type: dict[str, tuple[int, int]]


def detect(window: Window, chosen: Sequence[int], redactor: Redactor, limit: int) -> Detected:
    """Look at the batches of a window at the chosen indexes, whose CRCs are right."""
    decoded = decode_window(window, None, redactor, limit, chosen)
    places = dict(zip(window.batches.batch_ids, window.batches.positions.tolist(), strict=True))
    ids_at = {position: batch_id for batch_id, position in places.items()}
    found = {
        ids_at[fault.batch_position] for fault in decoded.faults if fault.batch_position in ids_at
    }
    counts: dict[str, int] = {}
    first: dict[str, tuple[int, int]] = {}
    for name, rows in (*decoded.control.items(), *decoded.records.items()):
        if rows.num_rows == 0:
            continue
        counts[name] = rows.num_rows
        first[name] = (
            places[str(rows.column("batch_id")[0])],
            rows.column("record_index")[0].as_py(),
        )
        if name in decoded.control or name in TRANSACTION_TYPES:
            found |= _ids(rows)
        else:
            found |= _ids(rows.filter(_breaks_a_rule(rows)))
    return Detected(frozenset(found), counts, first)


def _breaks_a_rule(rows: pa.RecordBatch) -> pa.Array:
    """The rules of `content`, as one mask over many records."""
    shifted = pc.not_equal(rows.column("offset_delta"), rows.column("record_index"))
    masks = [
        pc.greater(rows.column("header_count"), 0),
        pc.is_valid(rows.column("key_size_bytes")),
        pc.not_equal(rows.column("timestamp_delta"), 0),
        pc.is_valid(rows.column("raw")),
    ]
    for mask in masks:
        shifted = pc.or_(shifted, mask)
    return shifted


def _ids(rows: pa.RecordBatch) -> set[str]:
    return set(pc.unique(rows.column("batch_id").cast(pa.string())).to_pylist())
