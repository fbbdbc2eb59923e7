"""The evidence of a lake's newest run: what the checks see, and what `replicas` and `epochs` say.

In: a lake and options. Out: a `Quorum`. Runs on the driver. Everything comes from the tables that
the decode step wrote, but for side files and the few batches that a check asks for.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.config import Options
from kraftlog.decode.redaction import Redactor
from kraftlog.log import names
from kraftlog.log.directory import Replica, record_files
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.recorded import BATCH_COLUMNS, Recorded, RecordedCollector, fault_of
from kraftlog.source.collected import quorum_by
from kraftlog.tables.lake import Lake, held_by_all


def recorded_quorum(
    lake: Lake, replicas: list[Replica], limits: Limits, redactor: Redactor, options: Options
) -> Quorum:
    """The quorum as it lay on the disks when the lake's newest run read them."""
    collector = RecordedCollector(limits, redactor, recorded=_recorded(lake, replicas))
    return quorum_by(collector, replicas, options)


def _recorded(lake: Lake, replicas: list[Replica]) -> Recorded:
    """The decoded tables, as `audit.recorded` looks at them."""
    batches, faults = _ByPath(lake, "batches"), _ByPath(lake, "faults")
    contents = lake.dataset("contents")
    odd = contents.to_table(columns=["batch_id"], filter=ds.field("remarkable"))

    def batches_of(path: str) -> pa.Table:
        return batches.rows([path], BATCH_COLUMNS).sort_by("position").combine_chunks()

    def faults_of(path: str) -> list[Fault]:
        return sorted(map(fault_of, faults.rows([path]).to_pylist()), key=lambda one: one.position)

    beside = [one.path for one in record_files(replicas) if one.kind != names.LOG]
    types = _RecordTypes(contents, batches, beside)
    return Recorded(batches_of, faults_of, odd.column("batch_id").combine_chunks(), types.of)


class _ByPath:
    """The rows of a table that is replaced path by path. What Delta says of its files is looked at
    once: to ask a dataset for a path costs as much as there are files, for each of them.
    """

    def __init__(self, lake: Lake, name: str) -> None:
        self._table = lake.bare_dataset(name)
        fragments = {one.path: one for one in self._table.get_fragments()}
        self._of: dict[str | None, list[ds.Fragment]] = defaultdict(list)
        for file, values in lake.files(name):
            self._of[held_by_all(file, values).get("path")].append(fragments[file["path"]])

    def rows(self, paths: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
        """Those of some paths, in any order."""
        # Ours hold one path each; who has gathered them with another tool has files of several.
        mixed = self._of.get(None, [])
        fragments = [*mixed, *(file for path in paths for file in self._of.get(path, ()))]
        table = self._table
        found = ds.FileSystemDataset(fragments, table.schema, table.format, table.filesystem)
        chosen = ds.field("path").isin(pa.array(paths, pa.string())) if mixed else None
        return found.to_table(columns=None if columns is None else [*columns], filter=chosen)


class _RecordTypes:
    """What types of records some batches hold; of all those of some files after one look."""

    def __init__(self, contents: ds.Dataset, batches: _ByPath, paths: Sequence[str]) -> None:
        self._contents, self._batches, self._paths = contents, batches, paths

    def of(self, ids: pa.Array) -> pa.Array:
        """As `contents.record_types`; null where a batch is not stored."""
        asked = ids.to_pylist()
        if any(one not in self._places for one in asked):
            return record_types_of(self._contents, ids)
        return self._types.take(pa.array([self._places[one] for one in asked], pa.int64()))

    @cached_property
    def _ids(self) -> pa.Array:
        rows = self._batches.rows(self._paths, ["batch_id"])
        return rows.column("batch_id").combine_chunks().unique()

    @cached_property
    def _types(self) -> pa.Array:
        return record_types_of(self._contents, self._ids)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {one: place for place, one in enumerate(self._ids.to_pylist())}


def record_types_of(contents: ds.Dataset, ids: pa.Array) -> pa.Array:
    """`contents.record_types` of some batches, in their order; null where a batch is not stored."""
    chosen = pc.is_in(ds.field("batch_id"), ids)
    rows = contents.to_table(columns=["batch_id", "record_types"], filter=chosen)
    places = pc.index_in(ids, rows.column("batch_id").combine_chunks())
    return rows.column("record_types").combine_chunks().take(places)
