"""KIP-630's metrics per replica, advice on intervals and on how many to keep, tombstone horizons:
against figures worked out by hand, and the KIPs' own.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kraftlog.audit.snapshot_pace_checks import taken
from kraftlog.config import default_thresholds
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.metrics.objects import Changes
from kraftlog.metrics.policy import NEVER_MS, PolicyLimits, Simulator, limits_of_node, policy_rows
from kraftlog.metrics.retention_advice import START_LAG_MS, retention_rows
from kraftlog.metrics.shared_log import shared_log
from kraftlog.metrics.snapshot_advice import (
    advice_rows,
    kept_count,
    ms_to_write,
    period_ms,
)
from kraftlog.metrics.snapshot_metrics import snapshot_metric_rows, snapshot_rows
from kraftlog.metrics.tombstones import Deletions, horizon_of, horizon_rows
from kraftlog.pipeline.every_table import all_tables
from kraftlog.quorum.growth import DAY_MS, HOUR_MS
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import RetentionLimits, retention_limits
from kraftlog.simulate.liveness import (
    Link,
    count_to_keep,
    outlives_chance,
    snapshot_transfer_rows,
)
from tests.collecting import collect
from tests.unit.audit_logs import FOLDER, LIMITS, START_MS, Node, healthy_log, quorum, snapshot

Row = dict[str, Any]
MB, MIB = 1_000_000, 1 << 20
INTERVAL = "metadata.log.max.snapshot.interval.ms"
BETWEEN = "metadata.log.max.record.bytes.between.snapshots"
STORED = [healthy_log()[1], healthy_log()[3]]


def deletions_of(found: list[tuple[int, int, int]]) -> Deletions:
    """(offset of the last value, of its tombstone, time of the tombstone)."""
    values, stones, times = (np.array(one, np.int64) for one in zip(*found, strict=True))
    return Deletions(values, stones, times, np.zeros(len(found), np.int64))


def read(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))


def metrics(root: Path, **given: Any) -> dict[str, Row]:
    found = read(root)
    rows = snapshot_metric_rows(found, snapshot_rows(found, **given))
    return {row["replica"]: row for row in rows}


# --- the four metrics ----------------------------------------------------------------------------


def test_the_four_metrics_of_a_replica(tmp_path: Path) -> None:
    """The second snapshot ends at offset 11 with the record of 8,000 ms; the log at 12, 9,000."""
    node = quorum(tmp_path)[0]
    raw = snapshot([*STORED, healthy_log()[8]], 2, START_MS + 8000)
    node.checkpoint(11, 2).write_bytes(raw)
    path = str(node.checkpoint(11, 2))
    row = metrics(tmp_path, measured_load={path: 7.5})["1"]
    assert row["snapshot_size_bytes"] == len(raw)
    assert (row["snapshot_lag_min"], row["snapshot_lag_max"]) == (1, 1)
    assert row["load_snapshot_latency_ms"] == 7.5
    assert (row["end_offset"], row["snapshot_age_ms"]) == (11, 1000)
    assert row["snapshot_count"] == 2
    assert row["snapshots_size_bytes"] == len(raw) + node.checkpoint(6, 1).stat().st_size


def test_the_two_ends_of_what_a_metric_may_be(tmp_path: Path) -> None:
    """One voter of three, whose log goes on after its snapshot: all of that may be committed, or what
    lies before epoch 2, of which it has metadata. Its batches span 3 s, and the file lay there 4 s after the last record that it contains.
    """
    node = quorum(tmp_path)[0]
    for other in "23":
        shutil.rmtree(tmp_path / other)
    finished = (START_MS + 7000) * 10**6
    os.utime(node.checkpoint(6, 1), ns=(finished, finished))
    row = metrics(tmp_path)["1"]
    assert (row["snapshot_lag_min"], row["snapshot_lag_max"]) == (2, 6)
    generation = [row[f"gen_snapshot_latency_ms_{end}"] for end in ("min", "max", "median")]
    assert generation == [3000, 4000, 3000]


def test_a_replica_without_a_snapshot_lags_by_its_whole_log(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].checkpoint(6, 1).unlink()
    shutil.rmtree(tmp_path / "2")
    row = metrics(tmp_path)["3"]
    assert (row["snapshot_size_bytes"], row["snapshot_count"]) == (None, 0)
    assert (row["snapshot_lag_min"], row["snapshot_lag_max"]) == (12, 12)
    assert row["gen_snapshot_latency_ms_min"] is None
    # Alone it proves no more than what lies before epoch 2, of which it has metadata.
    shutil.rmtree(tmp_path / "1")
    row = metrics(tmp_path)["3"]
    assert (row["snapshot_lag_min"], row["snapshot_lag_max"]) == (8, 12)


# --- advice --------------------------------------------------------------------------------------


def test_hourly_snapshots_for_a_week() -> None:
    """KIP-876: 168 of them; with 100 bytes a partition, 100,000 partitions keep 1.7 GB."""
    forever = RetentionLimits(max_bytes=-1)
    assert kept_count(forever, HOUR_MS, 10 * MB) == (168, "metadata.max.retention.ms")
    assert pytest.approx(1.7e9, rel=0.02) == 168 * 10 * MB
    # With the limit that Kafka ships, 100 MiB over log and snapshots, ten are left.
    assert kept_count(RetentionLimits(), HOUR_MS, 10 * MB) == (10, "metadata.max.retention.bytes")
    assert kept_count(RetentionLimits(), HOUR_MS, 200 * MIB) == (1, "metadata.max.retention.bytes")
    assert kept_count(RetentionLimits(max_ms=-1, max_bytes=-1), HOUR_MS, MB) == (0, "no limit")
    # A limit of no byte at all is one; the newest snapshot is never deleted.
    assert kept_count(RetentionLimits(max_bytes=0), HOUR_MS, MB) == (
        1,
        "metadata.max.retention.bytes",
    )


@pytest.mark.parametrize(
    ("interval", "daily", "period"),
    [
        (HOUR_MS, 12 * MB, HOUR_MS),  # idle: 20 MiB take 1.7 days, an hour is sooner
        (HOUR_MS, 24 * 40 * MIB, HOUR_MS / 2),  # 40 MiB an hour: 20 MiB twice an hour
        (0, 10 * MIB, 2 * DAY_MS),
        (0, 0, None),
    ],
)
def test_what_comes_first(interval: int, daily: float, period: float | None) -> None:
    assert period_ms(interval, RetentionLimits(), daily) == period


def test_the_balanced_interval_writes_as_much_as_the_log() -> None:
    assert ms_to_write(6 * MB, 24 * MB) == 6 * HOUR_MS
    assert ms_to_write(6 * MB, 0) is None


def log_of(root: Path, properties: str = "") -> Any:
    node = quorum(root)[0]
    if properties:
        (node.home / "server.properties").write_text(properties)
    return read(root).by_label["1"]


def test_what_each_interval_costs(tmp_path: Path) -> None:
    """A snapshot of 6 MB, a log that grows by 24 MB a day, nodes that load 2 MB/s."""
    rows = {
        row["interval_ms"]: row for row in advice_rows(log_of(tmp_path), 6 * MB, 24 * MB, 2 * MB)
    }
    assert [one // 1000 for one in rows] == [900, 3600, 10800, 21600, 43200, 86400]
    hourly = rows[HOUR_MS]
    assert hourly["chosen_by"] == "default"
    assert (hourly["snapshots_per_day"], hourly["size_bytes_per_day"]) == (24, 144 * MB)
    assert hourly["write_amplification"] == 6
    assert (hourly["longest_debt_bytes"], hourly["longest_load_ms"]) == (MB, 3500)
    # 7 MB an hour: 100 MiB hold 14 of them.
    assert (hourly["kept_count"], hourly["kept_ms"]) == (14, 14 * HOUR_MS)
    assert hourly["kept_size_bytes"] == 98 * MB
    best = rows[6 * HOUR_MS]
    assert (best["chosen_by"], best["write_amplification"]) == ("balanced", 1)
    assert (best["longest_debt_bytes"], best["longest_load_ms"]) == (6 * MB, 6000)
    assert (best["kept_count"], best["kept_by"]) == (8, "metadata.max.retention.bytes")


def test_an_interval_that_never_comes_costs_nothing_that_is_known(tmp_path: Path) -> None:
    """The node goes by bytes alone, and its log does not grow."""
    never, hourly, *_ = advice_rows(log_of(tmp_path, f"{INTERVAL}=0\n"), 6 * MB, 0, 2 * MB)
    assert [never.pop(name) for name in ("replica", "interval_ms", "chosen_by")] == ["1", 0, "own"]
    assert set(never.values()) == {None}
    assert never.keys() == hourly.keys() - {"replica", "interval_ms", "chosen_by"}


def test_a_node_s_own_settings(tmp_path: Path) -> None:
    own = (
        "metadata.log.max.snapshot.interval.ms=7200000\n"
        "metadata.log.max.record.bytes.between.snapshots=1000000\n"
        "metadata.max.retention.ms=nonsense\n"
    )
    log = log_of(tmp_path, own)
    assert retention_limits(log.evidence) == RetentionLimits(between_bytes=1_000_000)
    rows = {row["interval_ms"]: row for row in advice_rows(log, 6 * MB, 24 * MB, 2 * MB)}
    assert rows[7_200_000]["chosen_by"] == "own"
    # 1 MB is written in an hour, before two of them have passed.
    assert rows[7_200_000]["snapshots_per_day"] == 24
    assert rows[HOUR_MS]["chosen_by"] == "example"


def test_policies_and_retention_go_by_a_node_s_own_settings(tmp_path: Path) -> None:
    own = (
        "metadata.log.max.snapshot.interval.ms=0\n"
        "metadata.log.max.record.bytes.between.snapshots=4096\n"
        "metadata.max.retention.bytes=1\n"
    )
    log = log_of(tmp_path, own)
    assert limits_of_node(log) == PolicyLimits(max_bytes=4096, max_interval_ms=NEVER_MS)
    assert (retention_limits(log.evidence).max_bytes, retention_limits(log.evidence).max_ms) == (
        1,
        7 * DAY_MS,
    )
    assert START_LAG_MS == 7 * DAY_MS
    # 1 may keep one byte; 2 and 3, which set nothing, keep both of theirs.
    for number in (1, 2, 3):
        raw = snapshot([*STORED, healthy_log()[8]], 2, START_MS + 8000)
        (tmp_path / str(number) / FOLDER / f"{11:020d}-{2:010d}.checkpoint").write_bytes(raw)
    dropped = {
        (row["replica"], row["end_offset"]): row["shipped_reason"]
        for row in retention_rows(read(tmp_path))
    }
    assert dropped == {("1", 6): "metadata.max.retention.bytes"} | dict.fromkeys(
        [("1", 11), ("2", 6), ("2", 11), ("3", 6), ("3", 11)]
    )


def test_limits_that_nothing_reaches_fit_their_columns(tmp_path: Path) -> None:
    """Kafka's largest long, as people write it for: never."""
    never = (1 << 63) - 1
    names = (INTERVAL, BETWEEN, "metadata.max.retention.bytes", "metadata.max.retention.ms")
    log = log_of(tmp_path, "".join(f"{name}={never}\n" for name in names))
    rows = list(advice_rows(log, 6 * MB, 24 * MB, 2 * MB))
    assert rows[-1]["interval_ms"] == never
    schema = all_tables()["snapshot_advice"].schema
    assert pa.Table.from_pylist(rows, schema).num_rows == len(rows)


def test_a_policy_goes_by_each_node_that_sets_its_limits(tmp_path: Path) -> None:
    """Batches a second apart. 1 takes a snapshot every 3 s: after the batches of 3, 6 and 9 s,
    which end at offsets 6, 9 and 12. 2 has limits that nothing reaches, and 3 sets none.
    """
    never = (1 << 63) - 1
    log_of(tmp_path, f"{INTERVAL} = 3000 \n{BETWEEN}=1000000\n")
    (tmp_path / "2" / "server.properties").write_text(f"{INTERVAL}={never}\n{BETWEEN}={never}\n")
    found = read(tmp_path)
    rows = policy_rows(Simulator(shared_log(found), Changes([]), PolicyLimits()), found, None)
    told: dict[tuple[str, str | None], list[int]] = {}
    limits = {}
    for row in rows:
        told.setdefault((row["policy"], row["replica"]), []).append(row["end_offset"])
        limits[row["policy"], row["replica"]] = (row["limit_bytes"], row["limit_interval_ms"])
    shipped, adopted = "shipped_bytes_or_time", "adopted_ratio_and_bytes"
    assert told[shipped, "1"] == [6, 9, 12, 12]
    assert told[shipped, None] == told[shipped, "2"] == told[adopted, "1"] == [12]
    assert (shipped, "3") not in told
    assert ("v19_records", "1") not in told
    assert limits[shipped, "1"] == (1_000_000, 3000)
    assert limits[adopted, "1"] == (1_000_000, None)
    assert limits[shipped, None] == (20 * MIB, HOUR_MS)
    assert limits[shipped, "2"][1] is None
    assert limits["real", "1"] == limits["v19_records", None] == (None, None)


# --- how many to keep ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transfer", "kept", "chance"),
    [
        (0, 1, 0.0),
        (15, 1, 0.25),  # of an hour; gone if it was begun in the last quarter
        (60, 1, 1.0),
        (60, 2, 0.0),  # the next but one is written after it has ended
        (90, 2, 0.5),
        (120, 2, 1.0),
        (600, 3, 1.0),
    ],
)
def test_the_chance_that_a_download_outlives_its_snapshot(
    transfer: float, kept: int, chance: float
) -> None:
    assert outlives_chance(transfer, 60, kept) == chance


def test_the_chance_counted_begin_by_begin() -> None:
    """Kept are the newest three; a snapshot is written at each full hour, a minute is a begin."""
    for transfer in range(0, 300, 7):
        lost = sum(begin + transfer >= 180 for begin in range(60))
        assert outlives_chance(transfer, 60, 3) == pytest.approx(lost / 60, abs=1 / 60)
        enough = count_to_keep(transfer, 60)
        assert outlives_chance(transfer, 60, enough) == 0
        assert transfer == 0 or outlives_chance(transfer + 60, 60, enough - 1) > 0


def test_transfer_rows_say_how_many_to_keep(tmp_path: Path) -> None:
    """Two snapshots 5 s apart; one byte a second takes longer than both are kept."""
    node = quorum(tmp_path)[0]
    raw = snapshot([*STORED, healthy_log()[8]], 2, START_MS + 8000)
    node.checkpoint(11, 2).write_bytes(raw)
    rows = snapshot_transfer_rows(read(tmp_path), 1e6, [Link(100, 0)], [1 << 20])
    row = next(one for one in rows if one["replica"] == "1")
    took = len(raw) * 10  # ms
    assert row["kept_snapshots"] == 2
    assert row["outlives_chance"] == min(1, max(0, round(took / 5000 - 1, 4)))
    assert row["snapshots_to_keep"] == -(-took // 5000) + 1
    other = next(
        one
        for one in snapshot_transfer_rows(read(tmp_path), 1e6, [Link(100, 0)], [1 << 20])
        if one["replica"] == "2"
    )
    assert (other["outlives_chance"], other["snapshots_to_keep"]) == (None, None)


# --- tombstone horizons --------------------------------------------------------------------------


def test_the_horizon_is_behind_the_last_tombstone_that_is_gone() -> None:
    """Objects deleted at offsets 5 (an hour ago) and 9 (now)."""
    gone = [deletions_of([(1, 5, -HOUR_MS), (2, 9, 0)])]
    assert horizon_of(gone, 0, 0, 100) == 10
    assert horizon_of(gone, 0, 1, 100) == 6
    assert horizon_of(gone, 0, HOUR_MS + 1, 100) == 0
    assert horizon_of(gone, 0, 0, 9) == 6  # a log that ends at 9 does not hold the second one


def node_behind(root: Path) -> Node:
    """3 ends at offset 8."""
    nodes = quorum(root)
    nodes[2].write(healthy_log()[:6])
    return nodes[2]


def test_what_a_horizon_would_ask_of_each_replica(tmp_path: Path, monkeypatch: Any) -> None:
    """A topic is removed at offset 9: the horizon is 10, 3 stands below it at 8."""
    node_behind(tmp_path)
    gone = deletions_of([(4, 9, START_MS - 1)])
    monkeypatch.setattr("kraftlog.metrics.tombstones.deletions", lambda *_: gone)
    found = read(tmp_path)
    rows = list(horizon_rows(found, shared_log(found), [None]))  # type: ignore[list-item]
    told = {row["replica"]: row for row in rows if row["tombstones_go"] == "at once"}
    assert {row["leader_horizon_offset"] for row in told.values()} == {10}
    assert (told["1"]["consumer_outcome"], told["1"]["replica_outcome"]) == ("go on", "go on")
    assert (told["1"]["follower_horizon_offset"], told["1"]["unsafe_offsets"]) == (10, 0)
    late = told["3"]
    assert (late["consumer_outcome"], late["replica_outcome"]) == ("wipe state", "wipe log")
    assert late["follower_horizon_offset"] == 0  # it does not hold that tombstone
    assert (late["kept_for_ever_count"], told["1"]["kept_for_ever_count"]) == (1, 0)
    assert (late["unsafe_offsets"], late["unsafe_when_moved"]) == (10, "wipe log")
    assert told[None]["fetch_offset"] == 0
    assert {row["leader_horizon_offset"] for row in rows if row["tombstones_go"] != "at once"} == {
        0
    }


# --- snapshots that are overdue ------------------------------------------------------------------


def overdue(root: Path, properties: str = "", **limits: Any) -> list[str]:
    """What the check says of 1."""
    if properties:
        (root / "1" / "server.properties").write_text(properties)
    found = collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False)
    with_limits = replace(found, thresholds=replace(default_thresholds(), **limits))
    return [row.message for row in taken.query(Quorum(with_limits)) if row.replica == "1"]


def test_time_without_a_snapshot(tmp_path: Path) -> None:
    """Six batches after the snapshot, a second apart: five seconds."""
    quorum(tmp_path)
    assert overdue(tmp_path, snapshot_stale_ms=5000) == []
    assert overdue(tmp_path, snapshot_stale_ms=4999)
    # A quorum that stood still took none: only its running time counts.
    assert overdue(tmp_path, snapshot_stale_ms=1, idle_gap_ms=999) == []
    own = "metadata.log.max.snapshot.interval.ms={}\n"
    assert overdue(tmp_path, own.format(0), snapshot_stale_ms=1) == []
    assert overdue(tmp_path, own.format(2500), snapshot_stale_ms=1) == []
    assert overdue(tmp_path, own.format(2499), snapshot_stale_ms=1)
