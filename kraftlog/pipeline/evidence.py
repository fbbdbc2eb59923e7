"""The evidence of a lake's newest run: what the checks see, and what `replicas` and `epochs` say.

In: a lake and options. Out: a `Quorum`. Runs on the driver. Everything comes from the tables that
the decode step wrote, but for side files and the few batches that a check asks for.
"""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.audit.collect import evidence_by
from kraftlog.audit.recorded import BATCH_COLUMNS, Recorded, RecordedCollector, fault_of
from kraftlog.config import Options
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import Replica
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.quorum.describe import described_of, of_one_cluster
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.thresholds import thresholds_of
from kraftlog.tables.lake import Lake


def quorum_of(
    lake: Lake, replicas: list[Replica], limits: Limits, redactor: Redactor, options: Options
) -> Quorum:
    """The quorum as it lay on the disks when the lake's newest run read them."""
    collector = RecordedCollector(limits, redactor, recorded=_recorded(lake))
    described = described_of(options, replicas)
    evidence = evidence_by(collector, replicas, described, thresholds_of(options))
    return Quorum(of_one_cluster(evidence, options))


def _recorded(lake: Lake) -> Recorded:
    """The decoded tables, as `audit.recorded` looks at them."""
    batches, faults = lake.dataset("batches"), lake.dataset("faults")
    contents = lake.dataset("contents")
    odd = contents.to_table(columns=["batch_id"], filter=ds.field("remarkable"))

    def batches_of(path: str) -> pa.Table:
        rows = batches.to_table(columns=[*BATCH_COLUMNS], filter=ds.field("path") == path)
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
