"""Step 1, decode: input roots → the tables `records`, `control_records`, `batches`, `files`,
`faults`, … of the lake.

Only files that are new or have changed are read, and only contents that no run has stored are
decoded. Driver side.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kraftlog.decode.tabular import fault_table
from kraftlog.errors import InputError
from kraftlog.log.directory import LogFile, record_files
from kraftlog.log.fault import FaultKind
from kraftlog.log.storage import entry_of
from kraftlog.log.stores import is_remote
from kraftlog.pipeline.content_places import choose
from kraftlog.pipeline.contents import decode_bin
from kraftlog.pipeline.disk_changes import (
    DiskChanges,
    changed_in_place,
    changed_side_files,
    disk_changes,
)
from kraftlog.pipeline.every_table import derived_tables
from kraftlog.pipeline.run import READING_LIMITS, Run
from kraftlog.pipeline.scan import scan_bin
from kraftlog.pipeline.tasks import Spark, WrittenFile, run_tasks, setting_of
from kraftlog.plain import counted, tell
from kraftlog.source.files import file_rows
from kraftlog.source.splits import Split, pack, plan_splits
from kraftlog.tables.lake import Lake
from kraftlog.tables.mend import forget_contents
from kraftlog.tables.parquet import AddedFile, read_columns, write_file
from kraftlog.tables.spec import CURRENT, GROWING, decoded_tables, state_tables

Written = dict[str, list[AddedFile]]
WALKED_BYTES = 2 << 30
"""So much is walked by the driver alone."""
_TOLD = 10
"""So many changed files are named."""


def decode(run: Run, meanwhile: Callable[[], object] = lambda: None) -> bool:
    """Bring the lake up to the disks; whether that made a new run. Where there is something to read,
    `meanwhile` is called before: it begins what a new run will need.

    A run over unchanged input writes nothing, and does not even start Spark, unless it goes by
    something else than the one before. Raises InputError and LakeError.
    """
    started = datetime.now(UTC)
    lake, replicas = run.lake, run.replicas
    finished = lake.run_number("runs")
    files, side_faults = file_rows(replicas, run.redactor.id_key)
    run.require_same_masks()
    before = run.last
    changes = disk_changes(lake, replicas, before["replica_count"] if before else 0)
    # Small files are read by each run, to be stored: what has changed in silence shows.
    compared, rotten = changed_side_files(changes, files)
    changes = replace(changes, read=changes.read | rotten.keys())
    other = {name for name, value in run.goes_by.items() if before and before[name] != value}
    holding = record_files(replicas)
    paths = frozenset(one.path for one in holding)
    if not other.isdisjoint(READING_LIMITS):
        changes = replace(changes, read=changes.read | paths)
    # Files that look as they did when they were read.
    again = paths - changes.read if run.options.verify else frozenset()
    if not changes and not again and not other:
        return False
    meanwhile()
    if "decompress_limit_bytes" in other:
        _forget_too_large(lake)
    number = finished + 1
    read = [file for file in holding if file.path in changes.read | again]
    made = _written(run, read, changes.known_sizes)
    written, counts = _by_table(made)
    _check_reach(lake, written, read)
    rotten |= changed_in_place(lake, written["batches"], again)
    _tell_rotten(rotten)
    if run.options.verify and (count := len(again) + compared):
        changed = f"{len(rotten):,} of them {'has' if len(rotten) == 1 else 'have'} changed"
        what = changed if rotten else "all as the lake knows them"
        tell(f"{counted(count, 'file')} read again, {what}")
    if not changes and not rotten and not other:
        return False
    changes = replace(changes, read=changes.read | again)
    for file, fault in side_faults:
        if file.path in changes.read:
            table = pa.Table.from_batches([fault_table(file, [fault])])
            written["faults"].append(write_file(lake.path("faults"), table))
    _commit(lake, number, written, changes, files)
    row = {
        "run_id": _run_id(files, number),
        "number": number,
        "started": started,
        "finished": datetime.now(UTC),
        **run.goes_by,
        "masks": run.redactor.masks,
        "inputs": list(run.options.input),
        "replica_count": len(replicas),
        "file_count": sum(len(one.files) for one in replicas),
        "read_file_count": len(changes.read),
        "changed_in_place_count": len(rotten),
        "batch_count": counts["batches"],
        "new_batch_count": counts["contents"],
        "record_count": counts["records"] + counts["control_records"],
        "fault_count": counts["faults"] + counts["record_faults"],
    }
    spec = decoded_tables()["runs"]
    lake.write(spec, pa.Table.from_pylist([row], schema=spec.schema), number)
    return True


def _forget_too_large(lake: Lake) -> None:
    """Let batches that unpacked to more than the limit be decoded again, and all that follows from
    records be told anew.
    """
    faults = lake.rows("record_faults", ["batch_id", "fault"])
    is_meant = pc.equal(faults.column("fault"), str(FaultKind.DECOMPRESSION_LIMIT))
    ids = pc.unique(faults.filter(is_meant).column("batch_id"))
    if not len(ids):
        return
    for spec in (state_tables() | derived_tables()).values():
        if spec.mode in (CURRENT, GROWING) and lake.exists(spec.name):
            lake.empty(spec)
    forget_contents(lake, ids)


def _tell_rotten(rotten: dict[str, int | None]) -> None:
    """Name files whose content has changed in silence."""
    for path, position in sorted(rotten.items())[:_TOLD]:
        where = "" if position is None else f", first at byte {position:,}"
        tell(
            f"{path}: its content has changed under the same size and time{where}; this run judges what is there now"
        )


def _run_id(files: pa.Table, number: int) -> str:
    """Another one also where an earlier input comes back."""
    rows = sorted(
        map(repr, files.select(["replica", "path", "size_bytes", "modified_ns"]).to_pylist())
    )
    return blake3("\n".join([str(number), *rows]).encode()).hexdigest(8)


def _written(run: Run, read: list[LogFile], known_sizes: Mapping[str, int]) -> list[WrittenFile]:
    """Run both passes; the Parquet files that wait for their commit. What is new and fits one split
    is decoded here, in less time than Spark takes to start.
    """
    if not read:
        return []
    split_size = run.options.split_size_bytes
    is_little = _is_little(read, known_sizes, split_size)
    with ThreadPoolExecutor(1) as starter:
        starting = None if is_little else starter.submit(run.start_spark)
        # Cutting large files takes seconds, starting Spark does too; for one process none is cut.
        splits = plan_splits(read, WALKED_BYTES if is_little else split_size)
        spark = None if starting is None else starting.result()
    bins = _bins(spark, splits)
    scan = partial(scan_bin, splits, bins, run.limits, run.lake)
    scanned = run_tasks(spark, len(bins), scan)
    places = choose(run.lake, scanned)
    if spark is None and sum(one.size_bytes for one in places.values()) > split_size:
        spark = run.start_spark()
        bins = _bins(spark, splits)
    # Each task decodes what was chosen of the splits that it scanned; the largest ones first.
    kept = [[index for index in one if index in places] for one in bins]
    sizes = [sum(places[index].size_bytes for index in one) for one in kept]
    kept = [one for _, one in sorted(zip(sizes, kept, strict=True), reverse=True) if one]
    decode = partial(decode_bin, splits, kept, places, run.limits, run.redactor, run.lake)
    return [one.file for one in scanned] + run_tasks(spark, len(kept), decode)


def _is_little(read: list[LogFile], known_sizes: Mapping[str, int], split_size: int) -> bool:
    """Whether no more than fits one split is new: what files hold beyond the bytes that a run has
    read. The others need to be looked at and no more: walked by one core, a gigabyte takes less
    than a second, where it need not be fetched first.
    """
    grown = sum(max(file.size_bytes - known_sizes.get(file.path, 0), 0) for file in read)
    most = split_size if any(is_remote(file.path) for file in read) else WALKED_BYTES
    return grown <= split_size and sum(file.size_bytes for file in read) <= most


def _bins(spark: "Spark | None", splits: list[Split]) -> list[list[int]]:
    """The splits of each task, about equally many bytes."""
    if spark is None:
        return [[*range(len(splits))]]
    tasks = max(2, int(setting_of(spark, "spark.sql.shuffle.partitions", "2")))
    total = sum(split.size_bytes for split in splits)
    tasks = max(tasks, total // max(split.size_bytes for split in splits) if total else 0)
    return pack([split.size_bytes for split in splits], tasks)


def _by_table(files: Iterable[WrittenFile]) -> tuple[Written, dict[str, int]]:
    """The files of each table, and how many rows they hold."""
    written: Written = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for file in files:
        written[file.table].append(file.added)
        counts[file.table] += file.row_count
    return written, counts


def _check_reach(lake: Lake, written: Written, read: list[LogFile]) -> None:
    """Files that the driver sees and every executor missed lie on a disk that executors do not
    share.
    """
    if written["batches"] or not written["faults"]:
        return
    files = [f"{lake.path('faults')}/{file.path}" for file in written["faults"]]
    kinds = {kind for one in files for kind in read_columns(one, ["fault"])["fault"].to_pylist()}
    if kinds == {FaultKind.VANISHED} and any(entry_of(file.path) for file in read):
        raise InputError(
            f"{read[0].path} and the other files are there for the driver and missing for the executors; put the input where every machine sees it under the same path"
        )


def _commit(
    lake: Lake, number: int, written: Written, changes: DiskChanges, files: pa.Table
) -> None:
    """Commit in the order of `decoded_tables`; `files` last, as the next run trusts what it
    says.
    """
    stale = changes.read | changes.gone
    for name, spec in decoded_tables().items():
        if name == "files":
            lake.write(spec, files, number, overwrite=True)
        elif name != "runs":
            is_of_path = name in ("faults", "batches")
            replaces = (lambda values: values["path"] in stale) if is_of_path else None
            lake.commit(spec, written[name], number, replaces)
