"""The evidence of a lake's newest run, once per process: what the checks see, and what `replicas`
and `epochs` say.

In: a lake and options. Out: a `Quorum`, and its records. Runs on the driver. Everything comes from
the tables that the decode step wrote, but for side files and the few batches that a check asks for.
"""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.audit.collect import evidence_by
from kraftlog.audit.recorded import Recorded, RecordedCollector, fault_of
from kraftlog.config import Options
from kraftlog.log.directory import find_replicas
from kraftlog.log.fault import Fault
from kraftlog.log.storage import absolute
from kraftlog.pipeline.described import described_of, of_one_cluster
from kraftlog.pipeline.lake_records import LakeRecords
from kraftlog.pipeline.run import lake_key, newest_run
from kraftlog.quorum.history import FileRecords
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.thresholds import thresholds_of
from kraftlog.source.settings import limits_of, redactor_of
from kraftlog.tables.lake import Lake

_KNOWN: dict[tuple[str, str, Options], Quorum] = {}


def quorum_of(lake: Lake, options: Options) -> Quorum:
    """The quorum as it lies on the disks of the newest run; read once for all steps of a
    process.
    """
    run = newest_run(lake)
    key = (lake.root, run["run_id"], options)
    if key not in _KNOWN:
        _KNOWN.clear()
        roots = [absolute(root) for root in options.input or run["inputs"]]
        redactor = redactor_of(options, lake_key(lake))
        replicas, limits = find_replicas(roots), limits_of(options, redactor)
        described = described_of(options, replicas)
        collector = RecordedCollector(limits, redactor, recorded=_recorded(lake))
        evidence = evidence_by(collector, replicas, described, thresholds_of(options))
        _KNOWN[key] = Quorum(of_one_cluster(evidence, options))
    return _KNOWN[key]


def records_of(lake: Lake, options: Options) -> LakeRecords:
    """The decoded records that the lake holds."""
    redactor = redactor_of(options, lake_key(lake))
    return LakeRecords(lake, FileRecords(redactor, limits_of(options, redactor)))


def _recorded(lake: Lake) -> Recorded:
    """The decoded tables, as `audit.recorded` looks at them."""
    batches, faults = lake.dataset("batches"), lake.dataset("faults")
    contents = lake.dataset("contents")
    odd = contents.to_table(columns=["batch_id"], filter=ds.field("remarkable"))

    def batches_of(path: str) -> pa.Table:
        rows = batches.to_table(filter=ds.field("path") == path)
        return rows.sort_by("position").combine_chunks()

    def faults_of(path: str) -> list[Fault]:
        rows = faults.to_table(filter=ds.field("path") == path).to_pylist()
        return sorted(map(fault_of, rows), key=lambda one: one.position)

    types_of = partial(record_types_of, contents)
    return Recorded(batches_of, faults_of, odd.column("batch_id").combine_chunks(), types_of)


def record_types_of(contents: ds.Dataset, ids: pa.Array) -> pa.Array:
    """`contents.record_types` of some batches, in their order; null where a batch is not stored."""
    chosen = pc.is_in(ds.field("batch_id"), ids)
    rows = contents.to_table(columns=["batch_id", "record_types"], filter=chosen)
    places = pc.index_in(ids, rows.column("batch_id").combine_chunks())
    return rows.column("record_types").combine_chunks().take(places)
