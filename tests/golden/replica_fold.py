"""The history of one replica by the fold, straight from its files: what a pipeline does over many
tasks, in one process.

In: a coverage. Out: the same rows as `spans.history_of` gives. Partitions are folded in parts of
their keys, so that memory is that of the decoded records and of one part.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import row_schema
from kraftlog.log.directory import LogFile
from kraftlog.log.reading import walk_file
from kraftlog.log.segment import Limits, Window
from kraftlog.message.catalogue import spec_of
from kraftlog.relations import payload_name
from kraftlog.state.arrow_events import Event, events_of, in_offset_order
from kraftlog.state.fold import fold_partitions
from kraftlog.state.log_coverage import LogCoverage
from kraftlog.state.outline import PARTITION_TYPES, Outliner
from kraftlog.state.reading import DEFAULT_LIMITS, log_files
from kraftlog.state.tables import NO_EFFECT
from tests.golden.spans import Span, spans_of

_PUT, _CHANGE = "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"
Types = dict[str, pa.Table]


def folded_history(
    coverage: LogCoverage, redactor: Redactor, parts: int = 1, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[str, pa.Table]]:
    """Rows of every history table of a replica, span by span."""
    for span in spans_of(coverage):
        yield from _of_span(coverage, span, redactor, parts, limits)


def _of_span(
    coverage: LogCoverage, span: Span, redactor: Redactor, parts: int, limits: Limits
) -> Iterator[tuple[str, pa.Table]]:
    base_ms = span.base.last_contained_timestamp if span.base is not None else -1
    outliner = Outliner(span.start_offset, base_ms, span.end_offset)
    base, base_control = _decoded([span.base.file] if span.base else [], redactor, limits)
    for event in _in_file_order(base, base_control):
        outliner.base(event)
    files = log_files(coverage.replica, span.start_offset)
    log, control = _decoded(files if span.end_offset > span.start_offset else [], redactor, limits)
    small = [events_of(rows) for name, rows in log.items() if _is_small(name)]
    for event in in_offset_order([*small, *(events_of(rows, True) for rows in control.values())]):
        outliner.feed(event)
    outline = outliner.finish(*span.close_at)
    for name, rows in outliner.history.rows():
        yield name, pa.Table.from_batches([rows])
    for part in range(parts):
        chosen = [
            _part(tables.get(name), name, part, parts)
            for tables, name in ((base, _PUT), (log, _PUT), (log, _CHANGE))
        ]
        yield "partitions", fold_partitions(outline, *chosen).rows


def _is_small(name: str) -> bool:
    return name not in PARTITION_TYPES and name not in NO_EFFECT


def _in_file_order(records: Types, control: Types) -> Iterator[Event]:
    """A checkpoint's records but those of partitions; their offsets are places in the file."""
    streams = [events_of(rows) for name, rows in records.items() if _is_small(name)]
    return in_offset_order([*streams, *(events_of(rows, True) for rows in control.values())])


def _decoded(files: Iterable[LogFile], redactor: Redactor, limits: Limits) -> tuple[Types, Types]:
    """All records of some files, by type, and the control records."""
    records: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    control: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for file in files:
        for found in walk_file(file, limits):
            if isinstance(found, Window):
                most = limits.decompressed_size_bytes
                for decoded in decode_window(found, None, redactor, most):
                    for name, rows in decoded.records.items():
                        records[name].append(rows)
                    for name, rows in decoded.control.items():
                        control[name].append(rows)
    return _tables(records), _tables(control)


def _tables(parts: dict[str, list[pa.RecordBatch]]) -> Types:
    return {name: pa.Table.from_batches(rows) for name, rows in parts.items()}


def _part(rows: pa.Table | None, name: str, part: int, parts: int) -> pa.Table:
    """The rows of some topics: with all rows of each partition, one part's fold needs no other."""
    if rows is None:
        return row_schema(name).empty_table()
    if parts == 1:
        return rows
    spec = spec_of(name)
    assert spec is not None
    payload = rows.column(payload_name(spec))
    topics = pc.struct_field(payload.combine_chunks(), "topic_id").dictionary_encode()
    of_topic = np.array([_hash(topic) % parts for topic in topics.dictionary.to_pylist()], np.int64)
    codes: npt.NDArray[np.int64] = topics.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(of_topic[codes] == part if len(of_topic) else codes >= 0))


def _hash(topic_id: str) -> int:
    return int.from_bytes(topic_id.encode()[-8:], "big")
