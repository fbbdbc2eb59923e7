"""Evidence put together from decoded tables is the one that the files themselves give."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kraftlog.audit.runner import audit_of
from kraftlog.decode.columnar import decode_window
from kraftlog.decode.records import bad_crc
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.tabular import batch_table, fault_table
from kraftlog.log import names
from kraftlog.log.batch import CONTROL
from kraftlog.log.directory import Replica, find_replicas, record_files, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.pipeline.decode import decode
from kraftlog.quorum import collector
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.content import BatchRecords, decode_batch
from kraftlog.quorum.detect import metadata_versions, remarkable, type_counts
from kraftlog.quorum.evidence import BatchColumns, QuorumEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.recorded import Recorded, RecordedCollector, fault_of
from kraftlog.relations import BATCHES
from tests.golden.cases import DATA
from tests.in_process import run_of
from tests.unit.audit_logs import batch_starts

# Windows of a few batches: what follows from a file must not depend on how it was cut.
LIMITS = Limits(window_size_bytes=4096)
REDACTOR = Redactor(bytes(32))


def recorded(replicas: list[Replica]) -> Recorded:
    """What a decode step would have stored of these replicas."""
    batches, faults = {}, {}
    odd: set[str] = set()
    types: dict[str, object] = {}
    for file in record_files(replicas):
        tables, found_faults = [], list[Fault]()
        for found in walk_file(file, LIMITS):
            if isinstance(found, Fault):
                found_faults.append(found)
                continue
            tables.append(batch_table(file, found.batches, LIMITS))
            valid = np.flatnonzero(found.batches.crc_valid).tolist()
            bad = np.flatnonzero(~found.batches.crc_valid).tolist()
            found_faults += [bad_crc(found, index) for index in bad]
            (decoded,) = decode_window(found, None, REDACTOR, LIMITS.decompressed_size_bytes, valid)
            odd |= remarkable(found, decoded) | metadata_versions(decoded).keys()
            ids = [found.batches.batch_ids[index] for index in valid]
            types |= zip(ids, type_counts(found, decoded, valid).to_pylist(), strict=True)
        batches[file.path] = pa.Table.from_batches(tables, BATCHES.schema)
        rows = fault_table(file, found_faults).to_pylist()
        faults[file.path] = sorted(map(fault_of, rows), key=lambda one: one.position)
    return Recorded(
        lambda path: batches.get(path, pa.Table.from_batches([], BATCHES.schema)),
        lambda path: faults.get(path, []),
        pa.array(sorted(odd), pa.string()),
        lambda ids: pa.array([types[one] for one in ids.to_pylist()]),
    )


def both(folder: Path) -> tuple[QuorumEvidence, QuorumEvidence]:
    replicas = find_replicas([str(folder)])
    by_files = Collector(LIMITS, REDACTOR)
    by_rows = RecordedCollector(LIMITS, REDACTOR, recorded=recorded(replicas))
    return (
        evidence_by(by_files, replicas, None),
        evidence_by(by_rows, replicas, None),
    )


def assert_same(one: QuorumEvidence, other: QuorumEvidence) -> None:
    for mine, theirs in zip(one.replicas, other.replicas, strict=True):
        pairs = [(mine.log, theirs.log)]
        for snapshot, twin in zip(mine.snapshots, theirs.snapshots, strict=True):
            pairs.append((snapshot.batches, twin.batches))
            assert dict(snapshot.type_counts) == dict(twin.type_counts)
            assert dict(snapshot.first_of_type) == dict(twin.first_of_type)
            assert snapshot.faults == twin.faults
        assert [s.faults for s in mine.segments] == [s.faults for s in theirs.segments]
        for columns, others in pairs:
            for name in BatchColumns.__slots__:
                if name != "content":  # numbers contents as they come
                    assert np.array_equal(getattr(columns, name), getattr(others, name)), name
    assert one.words == other.words
    assert {c.batch_id: c for c in one.contents} == {c.batch_id: c for c in other.contents}
    assert list(audit_of(Quorum(one)).rows()) == list(audit_of(Quorum(other)).rows())


# One of each kind: a quorum that split, an old one, one with every record, with damage, compressed.
KINDS = ("isolated", "legacy", "synthetic-every-type", "synthetic-every-control", "synthetic-torn",
         "synthetic-transactions", "synthetic-snapshots", "synthetic-compress-zstd")  # fmt: skip


@pytest.mark.parametrize("case", KINDS)
def test_rows_tell_what_files_tell(case: str) -> None:
    assert_same(*both(DATA / case / "replicas"))


def test_what_only_sets_a_level_is_not_gone_through_record_by_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A snapshot's first batch sets metadata.version, and may hold every partition."""

    def is_control(batch: bytes, *rest: Any) -> BatchRecords:
        assert batch[22] & CONTROL
        return decode_batch(batch, *rest)

    monkeypatch.setattr(collector, "decode_batch", is_control)
    replicas = find_replicas([str(DATA / "steady-live" / "replicas" / "1")])
    file = next(one for one in record_files(replicas) if one.kind == names.CHECKPOINT)
    by_files = Collector(LIMITS, REDACTOR)
    by_rows = RecordedCollector(LIMITS, REDACTOR, recorded=recorded(replicas))
    for one in (by_files, by_rows):
        one.snapshot(file)
        assert {content.metadata_version for content in one.contents} > {None}


def test_damage_is_told_alike(tmp_path: Path) -> None:
    files, rows = both(damaged(tmp_path))
    assert_same(files, rows)
    faulty = [one for one in rows.replicas for s in one.segments if s.faults]
    assert faulty


def test_a_lake_tells_it_however_its_files_lie(tmp_path: Path) -> None:
    """As decoding writes them, one for each path, and gathered by a tool that knows nothing of it."""
    root, lake = damaged(tmp_path), tmp_path / "lake"
    run = run_of(root, lake)
    decode(run)
    by_files = Collector(run.limits, run.redactor)
    files = evidence_by(by_files, find_replicas([str(root)]), None)
    assert_same(files, run.quorum.evidence)
    table = DeltaTable(str(lake / "batches"))
    assert len(table.file_uris()) > 1
    table.optimize.compact()
    assert len(DeltaTable(str(lake / "batches")).file_uris()) == 1
    assert_same(files, run_of(root, lake).quorum.evidence)


def damaged(tmp_path: Path) -> Path:
    """A wrong CRC, a damaged length, one that is too small, so that the rest of its batch looks
    like damage of its own, a hole of zeros, a torn tail: in one log.
    """
    target = tmp_path / "quorum"
    shutil.copytree(DATA / "isolated" / "replicas", target)
    log = max(target.rglob("*.log"), key=lambda one: one.stat().st_size)
    log.chmod(0o600)
    data = bytearray(log.read_bytes())
    starts = batch_starts(data)
    data[starts[3] + 70] ^= 0xFF
    data[starts[10] + 8] ^= 0x01
    data[starts[15] + 8 : starts[15] + 12] = (starts[16] - starts[15] - 12 - 5).to_bytes(4, "big")
    data[starts[20] : starts[21]] = bytes(starts[21] - starts[20])
    log.write_bytes(bytes(data[:-7]))
    return target
