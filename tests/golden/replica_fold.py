"""The history of one replica by the fold, straight from its files: what a pipeline does over many
tasks, in one process.

In: a replica. Out: the same rows as `spans.history_of` gives of its coverage. Partitions are folded in parts of
their keys (a power of two), so that memory is that of the decoded records and of one part.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

import pyarrow as pa

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded, row_schema
from kraftlog.log.directory import LogFile, Replica, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.state.arrow_events import Event, in_offset_order
from kraftlog.state.fold import fold_partitions
from kraftlog.state.outline import Outline, Outliner
from kraftlog.state.tables import NO_EFFECT
from kraftlog.state.window import window_columns
from tests.golden.spans import Span, spans_of
from tests.log_coverage import covered
from tests.reading import DEFAULT_LIMITS, LogBatch, batches_of, log_files

_PUT, _CHANGE = "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"


def histories(outline: Outline, base: pa.Table, puts: pa.Table, changes: pa.Table) -> pa.Table:
    """Every version of some partitions."""
    return fold_partitions(outline, base, puts, changes).rows


def folded_history(
    replica: Replica,
    redactor: Redactor,
    parts: int = 1,
    limits: Limits = DEFAULT_LIMITS,
    fold: Callable[[Outline, pa.Table, pa.Table, pa.Table], pa.Table] = histories,
) -> Iterator[tuple[str, pa.Table]]:
    """Rows of every history table of a replica, span by span, those of partitions as a fold gives
    them; its log is read once.
    """
    log = _Decoded(redactor, parts, limits)
    read = ((file.path, one) for file in log_files(replica) for one in log.read(file))
    spans = spans_of(covered(replica, read, limits))
    for span in spans:
        base = _Decoded(redactor, parts, limits)
        for _ in base.read(span.base.file) if span.base is not None else ():
            pass
        base_ms = span.base.last_contained_timestamp if span.base is not None else -1
        outliner = Outliner(span.start_offset, base_ms, span.end_offset)
        yield from _small_tables(outliner, span, base, log)
        for part in range(parts):
            tables = (base, _PUT), (log, _PUT), (log, _CHANGE)
            again = span is not spans[-1]
            chosen = [one.part(name, part, is_kept=again) for one, name in tables]
            yield "partitions", fold(outliner.outline, *chosen)


class _Decoded:
    """All records of some files, by type, those of partitions by parts; and the control records."""

    def __init__(self, redactor: Redactor, parts: int, limits: Limits) -> None:
        self._redactor, self._parts, self._limits = redactor, parts, limits
        self._small: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._control: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._sliced: dict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)

    def read(self, file: LogFile) -> Iterator[LogBatch | Fault]:
        """Takes in one more file, window by window; gives its batches and faults."""
        for found in walk_file(file, self._limits):
            if isinstance(found, Fault):
                yield found
                continue
            most = self._limits.decompressed_size_bytes
            for one in decode_window(found, None, self._redactor, most, slices=self._parts):
                self._take(one)
            yield from batches_of(file.path, found)

    def _take(self, found: Decoded) -> None:
        for name, rows in found.records.items():
            needed = rows.select(window_columns(name, rows.schema.names))
            if name not in found.ends:
                self._small[name].append(needed)
                continue
            for part, (first, end) in enumerate(pairwise([0, *found.ends[name]])):
                self._sliced[name, part].append(needed.slice(first, end - first))
        for name, rows in found.control.items():
            self._control[name].append(rows)

    def part(self, name: str, part: int, *, is_kept: bool) -> pa.Table:
        """The records of some partitions, all of each, so that one part's fold needs no other."""
        rows = self._sliced[name, part] if is_kept else self._sliced.pop((name, part), [])
        return pa.Table.from_batches(rows) if rows else row_schema(name).empty_table()

    def small(self) -> Iterator[Event]:
        """All records but those of partitions, in order of their offsets (a checkpoint's: of their
        places in the file).
        """
        chosen = [rows for name, rows in self._small.items() if name not in NO_EFFECT]
        control = self._control.values()
        return in_offset_order(
            map(pa.Table.from_batches, chosen), map(pa.Table.from_batches, control)
        )


def _small_tables(
    outliner: Outliner, span: Span, base: _Decoded, log: _Decoded
) -> Iterator[tuple[str, pa.Table]]:
    for event in base.small():
        outliner.base(event)
    for event in log.small():
        outliner.feed(event)
    outliner.finish(*span.close_at)
    yield from outliner.history.rows()
