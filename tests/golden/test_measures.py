"""Measures of real quorums, each against a value that is computed another way: file sizes, plain
walks with the interpreter, replays record by record.
"""

from collections import Counter, defaultdict
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kraftlog.config import Options, load_options
from kraftlog.decode.listing import RecordFilter, batch_rows, record_rows
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.metrics.compaction import KEYS
from kraftlog.metrics.lives import KEYS as TABLES
from kraftlog.metrics.objects import Changes
from kraftlog.metrics.policy import PolicyLimits, Simulator
from kraftlog.metrics.tombstones import deletions
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.metrics import metrics
from kraftlog.pipeline.run import Run
from kraftlog.pipeline.shared_measures import SharedMeasures
from kraftlog.simulate.liveness import EXAMPLE_LINKS
from kraftlog.state.replay import Origin, Replay, Visible
from kraftlog.tables.lake import Lake
from tests.golden.cases import DATA
from tests.in_process import InProcess

Row = dict[str, Any]
CASE = DATA / "steady-live" / "replicas"
LIMITS, OPEN = Limits(), Redactor(None)


class Measured:
    """A lake of one golden quorum with its measures, and the same logs read plainly."""

    def __init__(self, folder: Path) -> None:
        self.options: Options = load_options({"input": [str(CASE)], "lake": str(folder)})
        self.lake = Lake(str(folder))
        run = Run(self.options, self.lake, InProcess)
        assert decode(run)
        materialize(run)
        metrics(run)
        self.run = SharedMeasures(run)
        self.replicas = {one.label: one for one in find_replicas([str(CASE)])}

    def rows(self, table: str) -> list[Row]:
        rows: list[Row] = self.lake.rows(table).to_pylist()
        return rows

    def listed(self, label: str) -> list[Row]:
        """All records of a node's files, by the interpreter."""
        return list(record_rows([self.replicas[label]], LIMITS, OPEN, RecordFilter()))

    @cached_property
    def log_records(self) -> list[Row]:
        """Every record of every log once, in offset order: the logs of this quorum agree."""
        found = {
            row["offset"]: row
            for label in self.replicas
            for row in self.listed(label)
            if _is_log(row)
        }
        return [found[offset] for offset in sorted(found)]

    def batches(self, label: str) -> dict[int, int]:
        """Base offset → size of a node's log batches."""
        rows = batch_rows([self.replicas[label]], LIMITS)
        return {row["base_offset"]: row["size_bytes"] for row in rows if _is_log(row)}

    @cached_property
    def replayed(self) -> tuple[Replay, list[Visible]]:
        """A replay of the whole history, record by record, and what became visible by it."""
        replay, seen = Replay(), []
        for row in self.log_records:
            epoch = row["batch_leader_epoch"]
            origin = Origin(row["offset"], row["timestamp"], epoch, row["type"])
            apply = replay.apply_control if row["is_control"] else replay.apply
            seen += apply(origin, row["data"])
        return replay, seen


def _is_log(row: Row) -> bool:
    return bool(row["path"].endswith(".log"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return Measured(tmp_path_factory.mktemp("measures"))


@pytest.fixture(scope="module")
def log_records(measured: Measured) -> list[Row]:
    return measured.log_records


@pytest.fixture(scope="module")
def changes(measured: Measured) -> list[Visible]:
    _, found = measured.replayed
    return [
        one for one in found if one.change.table in TABLES and one.change.key != ("kraft.version",)
    ]


def test_the_shared_log_is_the_longest_log(measured: Measured, log_records: list[Row]) -> None:
    log = measured.run.log
    assert log.end_offset == log_records[-1]["offset"] + 1
    sizes = {
        base: size for one in measured.replicas for base, size in measured.batches(one).items()
    }
    assert log.size_bytes == sum(sizes.values())
    assert len(log) == len(sizes)


def test_record_sizes_add_up_to_the_bytes_on_disk(
    measured: Measured, log_records: list[Row]
) -> None:
    rows = [one for one in measured.rows("record_sizes") if one["source"] == "log"]
    assert sum(one["size_bytes"] for one in rows) == measured.run.log.size_bytes
    counts = {(one["type"], one["record_version"]): one["record_count"] for one in rows}
    assert counts == Counter((one["type"], one["record_version"]) for one in log_records)
    grown = measured.rows("growth")
    assert sum(one["size_bytes"] for one in grown) == measured.run.log.size_bytes
    assert sum(one["record_count"] for one in grown) == len(log_records)


def test_each_snapshots_types_add_up_to_its_file(measured: Measured) -> None:
    rows = measured.rows("snapshots")
    files = sorted(map(str, CASE.rglob("*.checkpoint")))
    assert sorted(one["path"] for one in rows) == [one for one in files if "bootstrap" not in one]
    for one in rows:
        assert (
            sum(size for _, size in one["size_bytes_by_type"]) == Path(one["path"]).stat().st_size
        )
        assert one["size_bytes"] == Path(one["path"]).stat().st_size
        listed = Counter(
            row["type"] for row in measured.listed(one["replica"]) if row["path"] == one["path"]
        )
        assert {name: listed[name] for name, _ in one["records_by_type"]} == dict(
            one["records_by_type"]
        )


def test_replay_debt_and_cadence_of_snapshots(measured: Measured) -> None:
    rows = measured.rows("snapshots")
    for one in rows:
        own = [row for row in measured.listed(one["replica"]) if _is_log(row)]
        after = [row for row in own if row["offset"] >= one["end_offset"]]
        assert one["lag_records"] == len(after)
        sizes = measured.batches(one["replica"])
        assert one["lag_bytes"] == sum(
            size for base, size in sizes.items() if base >= one["end_offset"]
        )
        assert one["lag_offsets_min"] <= one["lag_offsets_max"]
        assert one["origin"] in ("generated", "fetched", "unknown")
        loaded = one["size_bytes"] + one["lag_bytes"]
        assert one["predicted_load_ms"] == pytest.approx(loaded / 10_000)
    assert {one["replica"] for one in rows if one["load_ms"]} == set(measured.replicas)


def test_churn_is_what_a_replay_sees(measured: Measured, changes: list[Visible]) -> None:
    found: dict[tuple[str, str], int] = Counter()
    for row in measured.rows("churn"):
        for name in ("added_count", "modification_count", "deleted_count"):
            found[row["object_kind"], name] += row[name]
    expected: dict[tuple[str, str], int] = Counter()
    for (table, before, after), count in _net(changes).items():
        kind = "modification_count" if before and after else "added_count"
        expected[table, kind if after else "deleted_count"] += count
    assert {key: count for key, count in found.items() if count} == dict(expected)


def _net(changes: list[Visible]) -> Counter[tuple[str, bool, bool]]:
    """Changes by table, as everyone sees them: what a transaction makes visible at one offset is
    one change.
    """
    first: dict[tuple[str, Any, int], bool] = {}
    last: dict[tuple[str, Any, int], bool] = {}
    for change, _, since, _ in changes:
        at = change.table, change.key, since
        first.setdefault(at, change.before is not None)
        last[at] = change.after is not None
    return Counter((at[0], first[at], last[at]) for at in first if first[at] or last[at])


@pytest.mark.parametrize("start", [0, 239, 594, 943, 1428])
def test_dirty_objects_by_the_rule_told_in_sets(
    measured: Measured, changes: list[Visible], start: int
) -> None:
    simulated: Changes = measured.run.simulator.changes
    held: set[Any] = set()
    for change, _, since, _ in changes:
        if since <= start:
            at = change.table, change.key
            held = held - {at} if change.after is None else held | {at}
    assert simulated.alive_at(start) == len(held)
    alive, touched = set(held), set()
    by_offset: dict[int, list[Visible]] = defaultdict(list)
    told: dict[int, int] = {}
    for one in changes:
        by_offset[one.since_offset].append(one)
    for offset in sorted(by_offset):
        if offset <= start:
            continue
        before = set(alive)
        for change, _, _, _ in by_offset[offset]:
            at = change.table, change.key
            touched |= {at} & before
            alive = alive - {at} if change.after is None else alive | {at}
        told[offset] = len(touched)
    counts = simulated.counts(np.full(len(told), start), np.array([*told], np.int64))
    assert dict(zip(told, counts.tolist(), strict=True)) == told


def test_policies_against_a_plain_walk(measured: Measured) -> None:
    log = measured.run.log
    limits = PolicyLimits(max_bytes=30_000, max_interval_ms=20_000, min_records=300)
    simulator = Simulator(log, measured.run.simulator.changes, limits)
    since_bytes = since_records = 0
    began = int(log.base_timestamps[0])
    cuts: list[tuple[int, str]] = []
    for row in range(len(log)):
        since_bytes += int(log.sizes[row])
        late = int(log.max_timestamps[row]) - began >= limits.max_interval_ms
        if since_bytes >= limits.max_bytes or late:
            by_bytes = since_bytes >= limits.max_bytes
            cuts.append((int(log.last_offsets[row]) + 1, "bytes" if by_bytes else "time"))
            since_bytes, began = 0, int(log.max_timestamps[row])
    found = simulator.intervals(simulator.rules()["shipped_bytes_or_time"])
    assert [(one.end_offset, one.trigger) for one in found if one.trigger] == cuts
    assert len(cuts) > 3
    ends = []
    for row in range(len(log)):
        since_records += int(log.record_counts[row])
        if since_records > limits.min_records:
            ends.append(int(log.last_offsets[row]) + 1)
            since_records = 0
    found = simulator.intervals(simulator.rules()["v19_records"])
    assert [one.end_offset for one in found if one.trigger] == ends


def test_the_adopted_policy_holds_both_conditions_and_not_before(measured: Measured) -> None:
    limits = PolicyLimits(max_bytes=10_000, min_changed_ratio=0.3)
    changes, log = measured.run.simulator.changes, measured.run.log
    simulator = Simulator(log, changes, limits)
    cuts = [
        one
        for one in simulator.intervals(simulator.rules()["adopted_ratio_and_bytes"])
        if one.trigger
    ]
    assert len(cuts) > 1

    def holds(start: int, end: int) -> bool:
        ratio = limits.min_changed_ratio * changes.alive_at(start)
        starts, ends = np.array([start]), np.array([end])
        (size,), (changed,) = log.bytes_between(starts, ends), changes.counts(starts, ends)
        return bool(size >= limits.max_bytes and changed >= ratio)

    for one in cuts:
        assert holds(one.start_offset, one.end_offset)
        last = int(log.base_offsets[log.row_at(one.end_offset) - 1])
        assert not holds(one.start_offset, last)


def test_real_intervals_are_the_snapshots_on_disk(measured: Measured) -> None:
    real = [row for row in measured.rows("snapshot_policy") if row["policy"] == "real"]
    cut = {(row["replica"], row["end_offset"]) for row in real if row["is_cut"]}
    held = {(row["replica"], row["end_offset"]) for row in measured.rows("snapshots")}
    assert cut == held
    assert Counter(row["replica"] for row in real if not row["is_cut"]) == dict.fromkeys(
        measured.replicas, 1
    )


def test_elections_are_the_leader_changes(measured: Measured, log_records: list[Row]) -> None:
    rows = measured.rows("elections")
    listed = [row for row in log_records if row["type"] == "LEADER_CHANGE"]
    assert [(row["start_offset"], row["leader_id"]) for row in rows] == [
        (row["offset"], row["data"]["leaderId"]) for row in listed
    ]
    assert len(rows) > 2
    epochs = [row["batch_leader_epoch"] for row in rows]
    assert sum(row["skipped_epochs"] for row in rows) == epochs[-1] - epochs[0] + 1 - len(epochs)
    assert sum(row["size_bytes"] for row in rows) == measured.run.log.size_bytes
    assert sum(row["record_count"] for row in rows) == len(log_records)
    assert [row["is_current"] for row in rows] == [False] * (len(rows) - 1) + [True]


def test_events_and_their_partition_changes(measured: Measured, log_records: list[Row]) -> None:
    rows = measured.rows("event_amplification")
    at = {row["offset"]: row for row in log_records}
    assert {row["event"] for row in rows} >= {"fenced", "unfenced", "controlled_shutdown"}
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for row in rows:
        assert at[row["event_offset"]]["type"] == row["record_type"]
        span = (row["burst_start_offset"], row["burst_end_offset"])
        counts[span] += row["partition_change_count"]
        assert row["burst_record_count"] == span[1] - span[0]
        assert row["replicated_size_bytes"] == row["burst_size_bytes"] * 6
    for span, count in counts.items():
        kinds = Counter(at[one]["type"] for one in range(*span))
        assert count == kinds["PARTITION_CHANGE_RECORD"]
    # Brokers 13 and 12 were fenced in one batch, and each takes itself out of its own ISRs.
    together = [row for row in rows if (row["burst_start_offset"], row["event"]) == (499, "fenced")]
    assert [(row["broker_id"], row["event_offset"]) for row in together] == [(13, 546), (12, 593)]
    begin = 499
    for row in together:
        changes = [at[one] for one in range(begin, row["event_offset"])]
        assert {one["type"] for one in changes} == {"PARTITION_CHANGE_RECORD"}
        assert row["partition_change_count"] == len(changes)
        isrs = [one["data"]["isr"] for one in changes if one["data"]["isr"] is not None]
        assert isrs
        assert all(row["broker_id"] not in isr for isr in isrs)
        begin = row["event_offset"] + 1


def _key(row: Row) -> tuple[Any, ...] | None:
    how = KEYS.get(row["type"])
    if how is None:
        return None
    camel = [_camel(name) for name in how.fields]
    return (how.table, *(repr(row["data"][name]) for name in camel))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(one.capitalize() for one in rest)


def _deletes(row: Row) -> bool:
    how = KEYS[row["type"]].deletes
    if not isinstance(how, tuple):
        return how
    return bool(row["data"][_camel(how[0])] == how[1])


def test_compaction_keeps_the_last_record_of_each_key(
    measured: Measured, log_records: list[Row]
) -> None:
    last = {key: row for row in log_records if (key := _key(row)) is not None}
    rows = {(row["tombstones_go"], row["type"]): row for row in measured.rows("compaction")}
    for kind in {row["type"] for row in log_records} & KEYS.keys():
        kept = [row for row in last.values() if row["type"] == kind]
        assert rows["never", kind]["kept_record_count"] == len(kept)
        assert rows["never", kind]["tombstone_count"] == sum(map(_deletes, kept))
        alive = [row for row in kept if not _deletes(row)]
        assert rows["at once", kind]["kept_record_count"] == len(alive)
        total = [row for row in log_records if row["type"] == kind]
        assert rows["never", kind]["record_count"] == len(total)


def test_two_replicas_with_different_horizons_end_up_different(
    measured: Measured, log_records: list[Row]
) -> None:
    """One replica reads all; another stood at the worst position while the tombstones went."""
    lives = measured.run.lives["acls"]
    found = deletions(measured.run.log, lives)
    now = int(measured.run.log.max_timestamps.max())
    worst = found.worst_position(found.gone(now, 0))
    assert worst is not None
    position, expected = worst
    records = [row for row in log_records if (key := _key(row)) is not None and key[0] == "acls"]

    def replayed(rows: list[Row]) -> set[Any]:
        state: set[Any] = set()
        for row in rows:
            state = state - {_key(row)} if _deletes(row) else state | {_key(row)}
        return state

    last = {_key(row): row["offset"] for row in records}
    compacted = [row for row in records if row["offset"] == last[_key(row)] and not _deletes(row)]
    late = [row for row in records if row["offset"] < position]
    late += [row for row in compacted if row["offset"] >= position]
    kept_for_ever = replayed(late) - replayed(records)
    assert len(kept_for_ever) == expected > 0
    in_time = [row for row in records if row["offset"] < position]
    in_time += [row for row in records if row["offset"] >= position]
    assert replayed(in_time) == replayed(records)


def test_disk_is_what_lies_in_the_folders(measured: Measured) -> None:
    for row in measured.rows("disk"):
        folder = CASE / row["replica"]
        inside = folder / "__cluster_metadata-0"
        logs = sum(one.stat().st_size for one in inside.glob("*.log"))
        assert row["log_size_bytes"] == logs
        assert row["snapshot_size_bytes"] == sum(
            one.stat().st_size for one in inside.glob("*.checkpoint")
        )
        assert row["size_bytes"] == sum(size for _, size in row["size_bytes_by_kind"])
        assert row["log_bytes_per_day"] > 0
        assert row["days_to_fill"] is None


def test_retention_by_both_rule_sets(measured: Measured) -> None:
    rows = measured.rows("retention_advice")
    ends = {one.label: one.end_offset for one in measured.run.quorum.logs}
    snapshots = measured.rows("snapshots")
    assert len(rows) == sum(row["complete"] for row in snapshots)
    for row in rows:
        start = row["log_start_offset"]
        held = all(end >= row["end_offset"] for end in ends.values())
        assert row["kip_may_advance"] == (held and row["end_offset"] > start)
        assert not row["shipped_may_advance"]  # far below 100 MiB and seven days
        older = [
            one["size_bytes"]
            for one in snapshots
            if one["replica"] == row["replica"] and one["end_offset"] < row["end_offset"]
        ]
        assert row["prunable_snapshot_bytes"] == sum(older)
    assert any(row["kip_may_advance"] for row in rows)
    assert Counter(row["replica"] for row in rows if row["is_served"]) == dict.fromkeys(
        measured.replicas, 1
    )


def test_a_joiner_pays_the_newest_snapshot_and_the_log_after_it(measured: Measured) -> None:
    rows = [row for row in measured.rows("snapshot_transfer") if row["is_leading"]]
    (source,) = {row["replica"] for row in rows}
    held = [row for row in measured.rows("snapshots") if row["replica"] == source]
    newest = max(held, key=lambda row: row["end_offset"])
    for row in rows:
        assert row["size_bytes"] == newest["size_bytes"]
        assert row["log_size_bytes"] == newest["lag_bytes"]
        chunk, speed = row["chunk_bytes"], row["bandwidth_bytes_per_s"]
        requests = -(-newest["size_bytes"] // chunk)
        expected = requests * row["round_trip_ms"] + newest["size_bytes"] / speed * 1000
        assert row["transfer_ms"] == ceil(expected)
        assert row["load_ms"] == ceil(newest["predicted_load_ms"])
    suited = [row for row in rows if row["chunk_bytes"] == row["recommended_chunk_bytes"]]
    links = Counter((row["bandwidth_bytes_per_s"], row["round_trip_ms"]) for row in suited)
    assert [*links.values()] == [1] * len(EXAMPLE_LINKS)


def test_costs_are_fed_with_measured_values(measured: Measured) -> None:
    values = {
        row["measure"]: row["value"]
        for row in measured.rows("cost_models")
        if row["scenario"] == "measured"
    }
    image = Counter(name for name, _, _ in _image(measured))
    assert values["topics"] == image["topics"]
    partitions = [value for name, _, value in _image(measured) if name == "partitions"]
    per_broker = Counter(broker for one in partitions for broker in one["replicas"])
    assert values["replicas on a broker"] == max(per_broker.values())
    assert values["replicas on a broker, mean"] == pytest.approx(np.mean([*per_broker.values()]))
    pairs = Counter((one["topicId"], broker) for one in partitions for broker in one["replicas"])
    doubled = {topic for (topic, _), count in pairs.items() if count > 1}
    assert values["topics with two replicas on one broker"] == len(doubled)
    in_state = sum(count for name, count in image.items() if name in TABLES)
    kraft = sum(
        name == "features" and key == ("kraft.version",) for name, key, _ in _image(measured)
    )
    assert values["objects in the state"] == in_state - kraft
    # A compacted log keeps the partitions of topics that are gone: no tombstone names them.
    assert values["objects in a compacted log"] > values["objects in the state"]


def _image(measured: Measured) -> list[tuple[str, Any, Any]]:
    return list(measured.replayed[0].state)


def test_measures_of_the_same_run_are_not_written_twice(measured: Measured) -> None:
    names = ("growth", "churn", "cost_models", "snapshots")
    before = {name: measured.lake.open(name).version() for name in names}
    metrics(measured.run.run)
    assert {name: measured.lake.open(name).version() for name in names} == before
