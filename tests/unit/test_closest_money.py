"""KIP-392 in bytes and money, partition by partition, and how far apart replicas are: a cluster
worked out by hand, and real copies.

Three brokers in racks a, b and c. t-0 lies on 1 and 2, led by 1; t-1 on 2 and 3, led by 2; u-0 on 3
and 1, led by 3, and 1 is not in sync.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import UsageError
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.replica_selection import (
    Broker,
    Cluster,
    DataPartition,
    Partitions,
    partition_rows,
    rack_rows,
    select_all,
    topic_rows,
)
from kraftlog.simulate.selectors import LeaderSelector, RackAwareReplicaSelector
from kraftlog.simulate.staleness import known_watermarks, staleness_rows, watermark_rows
from kraftlog.simulate.traffic import (
    GB,
    Traffic,
    cost_per_month,
    evenly,
    from_file,
)
from tests.collecting import collect
from tests.golden.cases import DATA
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    Batch,
    healthy_log,
    healthy_state,
    quorum,
    snapshot,
)

Row = dict[str, Any]
RACKS = ["a", "b", "c"]
PARTITIONS = Partitions.of(
    [
        DataPartition("t", 0, [1, 2], [1, 2], 1),
        DataPartition("t", 1, [2, 3], [2, 3], 2),
        DataPartition("u", 0, [3, 1], [3], 3),
    ]
)
PLACES = [(one.topic, one.partition) for one in PARTITIONS]
CLUSTER = Cluster(
    {number: Broker(number, rack, False) for number, rack in enumerate(RACKS, 1)}, PARTITIONS
)
RACK_AWARE = RackAwareReplicaSelector()


def crossing(traffic: Traffic) -> tuple[float, float]:
    """GB a day across zones, before and after."""
    found = select_all(CLUSTER, RACK_AWARE, traffic)
    rows = {row["client_rack"]: row for row in rack_rows(found, traffic, 0.02)}
    every = rows["*"]
    return every["cross_zone_bytes_before"] / GB, every["cross_zone_bytes_after"] / GB


def test_even_traffic_in_bytes_and_money() -> None:
    """900 GB a day are 100 for each of three partitions and racks. Six of nine reads leave their
    zone without KIP-392; with it two more stay: b reads t-0 from 2, c reads t-1 from 3. a cannot
    read u-0 from 1, which is not in sync.
    """
    traffic = evenly(PLACES, RACKS, 900 * GB)
    assert crossing(traffic) == (600, 400)
    (*_, every) = rack_rows(select_all(CLUSTER, RACK_AWARE, traffic), traffic, 0.02)
    assert every["bytes_per_day"] == 900 * GB
    assert every["cost_per_month_before"] == 600 * 30 * 0.02
    assert every["cost_per_month_after"] == 400 * 30 * 0.02
    assert every["saved_per_month"] == 120
    assert (every["cross_zone_share_before"], every["cross_zone_share_after"]) == (0.6667, 0.4444)


def test_every_topic_alike() -> None:
    """1,200 GB: 600 of t and of u, 200 for each rack; of t 100 a partition."""
    traffic = evenly(PLACES, RACKS, 1200 * GB, by_topic=True)
    assert traffic.of("t", 1) == (100 * GB,) * 3
    assert traffic.of("u", 0) == (200 * GB,) * 3
    assert crossing(traffic) == (800, 600)


def test_weights_without_bytes_tell_shares_alone() -> None:
    for by_topic in (False, True):
        traffic = evenly(PLACES, RACKS, None, by_topic=by_topic)
        (*_, every) = rack_rows(select_all(CLUSTER, RACK_AWARE, traffic), traffic, 0.02)
        assert "bytes_per_day" not in every
        assert every["cross_zone_share_before"] == pytest.approx(2 / 3, abs=1e-4)


FILE = """topic, partition, rack, bytes_per_day
t,0,c,50e9
t,1,c,10e9
t,,a,40e9
u,,,90e9
gone,,,7
t,9,,7
t,0,nowhere,7
"""


def test_traffic_of_a_file(tmp_path: Path) -> None:
    """a reads 20 of t-0 and of t-1, each rack 30 of u-0. Before: c 50 and 10, a 20 of t-1, a and b
    30 of u-0; after: c reads t-1 from 3.
    """
    path = tmp_path / "traffic.csv"
    path.write_text(FILE)
    traffic, unknown = from_file(str(path), PLACES, RACKS)
    assert traffic.of("t", 0) == [20 * GB, 0, 50 * GB]
    assert traffic.of("t", 1) == [20 * GB, 0, 10 * GB]
    assert traffic.of("u", 0) == [30 * GB] * 3
    assert unknown == ["gone, 7", "t, 9, 7", "t, 0, nowhere, 7"]
    assert crossing(traffic) == (140, 130)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topic,bytes\nt,1\n", "has no column bytes_per_day"),
        ("t,1\n", "no column bytes_per_day and no column topic"),
        ("topic,bytes_per_day\nt,many\n", "traffic.csv, line 2: bytes_per_day 'many'"),
        ("topic,bytes_per_day\nt,-1\n", "line 2"),
        ("topic,bytes_per_day\nt,nan\n", "line 2"),
        ("topic,bytes_per_day\nt,1e308\n", "line 2"),
        ("", "no column bytes_per_day and no column topic"),
        ("topic,partition,bytes_per_day\nt,x,1\n", "traffic.csv, line 2: partition 'x'"),
        ("topic,bytes_per_day\nt\n", "line 2: bytes_per_day None"),
        ("topic,bytes_per_day\nt,1\nt,1,000\n", "traffic.csv, line 3 has more cells"),
        ("topic,bytes_per_day\nnope,5,1\n", "traffic.csv, line 2 has more cells"),
    ],
)
def test_a_traffic_file_that_cannot_be_read(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "traffic.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        from_file(str(path), PLACES, RACKS)
    with pytest.raises(UsageError, match="cannot be read"):
        from_file(str(tmp_path / "nothing"), PLACES, RACKS)


def test_a_gigabyte_a_day_for_a_month() -> None:
    assert cost_per_month(GB, 0.02) == pytest.approx(0.6)


def test_each_partition_and_its_closest_replica() -> None:
    rows = {
        (row["client_rack"], row["topic"], row["partition"]): row
        for row in partition_rows(CLUSTER, RACK_AWARE, evenly(PLACES, RACKS, 9 * GB), 0.02)
    }
    assert len(rows) == 9
    told = {
        key: (row["closest_replica"], row["preferred_read_replica"]) for key, row in rows.items()
    }
    assert told == {
        ("a", "t", 0): (1, -1), ("b", "t", 0): (2, 2), ("c", "t", 0): (None, -1),
        ("a", "t", 1): (None, -1), ("b", "t", 1): (2, -1), ("c", "t", 1): (3, 3),
        ("a", "u", 0): (None, -1), ("b", "u", 0): (None, -1), ("c", "u", 0): (3, -1),
    }  # fmt: skip
    row = rows["c", "t", 1]
    assert (row["leader"], row["leader_rack"]) == (2, "b")
    assert (row["leader_is_local"], row["is_local"]) == (False, True)
    assert rows["b", "t", 1]["leader_is_local"] is True
    assert (row["cross_zone_bytes_before"], row["cross_zone_bytes_after"]) == (GB, 0)
    assert row["saved_per_month"] == 0.6


def test_the_closest_replica_is_told_whatever_the_selector() -> None:
    rows = list(partition_rows(CLUSTER, LeaderSelector(), evenly(PLACES, RACKS, None), 0.0))
    row = next(one for one in rows if (one["client_rack"], one["topic"]) == ("b", "t"))
    assert (row["closest_replica"], row["preferred_read_replica"], row["is_local"]) == (
        2,
        -1,
        False,
    )


def test_an_offline_partition_is_read_by_nobody() -> None:
    brokers = CLUSTER.brokers
    partitions = [DataPartition("t", 0, [1, 2], [], -1), DataPartition("t", 1, [1], [1], 1)]
    cluster = Cluster(brokers, Partitions.of(partitions))
    traffic = evenly([("t", 0), ("t", 1)], RACKS, 6 * GB)
    (*_, every) = rack_rows(select_all(cluster, RACK_AWARE, traffic), traffic, 1)
    assert (every["bytes_per_day"], every["offline_count"]) == (3 * GB, 3)
    assert every["leader_local_share"] == every["local_share"] == 0.3333
    rows = list(partition_rows(cluster, RACK_AWARE, traffic, 1))
    assert rows[0]["leader"] is rows[0]["preferred_read_replica"] is None
    (row, *_) = topic_rows(select_all(cluster, RACK_AWARE)).to_pylist()
    assert row["preferred_read_replicas"] == [(0, None), (1, -1)]
    assert row["closest_replicas"] == [(0, None), (1, 1)]
    assert (row["cross_zone_share_before"], row["cross_zone_share_after"]) == (0, 0)


# --- how far apart replicas are ------------------------------------------------------------------


def read(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))


def test_bounds_of_staleness(tmp_path: Path) -> None:
    """1 holds a snapshot at 11, which it took of what it knew to be committed; 3 ends at offset 8
    with a snapshot at 6. Offset 5 is of 3,000 ms, 7 of 5,000, 10 of 8,000, 11 of 9,000.
    """
    nodes = quorum(tmp_path)
    nodes[0].checkpoint(11, 2).write_bytes(snapshot(healthy_state(), 2, START_MS + 8000))
    nodes[2].write(healthy_log()[:6])
    found = read(tmp_path)
    assert known_watermarks(found) == {"1": (11, 12), "2": (6, 12), "3": (6, 8)}
    rows = {(row["replica"], row["other_replica"]): row for row in staleness_rows(found)}
    behind = rows["1", "3"]
    assert (behind["behind_offsets_min"], behind["behind_offsets_max"]) == (3, 6)
    assert (behind["behind_ms_min"], behind["behind_ms_max"]) == (3000, 6000)
    assert rows["3", "1"]["behind_offsets_max"] == rows["3", "1"]["behind_ms_max"] == 0
    assert rows["3", "2"]["behind_offsets_max"] == 2
    names = [f"{of}high_watermark_{end}" for of in ("", "other_") for end in ("min", "max")]
    assert [behind[name] for name in names] == [11, 12, 6, 8]


def test_what_was_never_committed_is_served_by_nobody() -> None:
    """Golden isolated: 2 and 12 hold a tail from offset 176 on."""
    known = known_watermarks(read(DATA / "isolated" / "replicas"))
    assert {label: one.most for label, one in known.items()} == {
        "1": 362, "11": 362, "3": 362, "2": 176, "12": 176,
    }  # fmt: skip


def test_how_late_a_high_watermark_comes(tmp_path: Path) -> None:
    """Ten batches a second apart: nine times one waits for the next."""
    quorum(tmp_path)
    rows = {row["rule"]: row for row in watermark_rows(read(tmp_path), 500)}
    assert (rows["waits"]["batch_count"], rows["waits"]["mean_ms"]) == (9, 500)
    assert rows["waits"]["waits_whole_share"] == 1
    assert (rows["at_once"]["mean_ms"], rows["at_once"]["max_ms"]) == (0, 0)
    (waits, _) = watermark_rows(read(tmp_path), 1000)
    assert (waits["mean_ms"], waits["waits_whole_share"]) == (1000, 1)
    (waits, _) = watermark_rows(read(tmp_path), 2000)
    assert (waits["mean_ms"], waits["p99_ms"], waits["waits_whole_share"]) == (1000, 1000, 0)


def test_a_mean_is_told_to_a_tenth_of_a_millisecond(tmp_path: Path) -> None:
    """Nine gaps of a second and two of 100 ms: (9 · 333 + 200) / 11 is 290.63."""
    for node in quorum(tmp_path):
        node.append(*(Batch(12 + n, 2, (NO_OP,), None, START_MS + 9100 + 100 * n) for n in (0, 1)))
    (waits, _) = watermark_rows(read(tmp_path), 333)
    assert waits["mean_ms"] == 290.6


# --- on the command line -------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], case: str, *more: str) -> list[Row]:
    words = ["plan", "replicas", "--input", str(DATA / case / "replicas"), *more]
    assert main([*words, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_real_cluster_in_money(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = printed(capsys, "steady-live", "--bytes-per-day", "1e12", "--price-per-gb", "0.05")
    every = rows[-1]
    assert 0 < every["cross_zone_bytes_after"] < every["cross_zone_bytes_before"] <= 1e12
    saved = (every["cross_zone_bytes_before"] - every["cross_zone_bytes_after"]) * 30 / GB * 0.05
    assert every["saved_per_month"] == pytest.approx(saved, abs=0.01)
    parts = printed(
        capsys, "steady-live", "--bytes-per-day", "1e12", "--price-per-gb", "0.05", "--partitions"
    )
    assert len(parts) == every["partition_count"]
    total = sum(row["cross_zone_bytes_after"] for row in parts)
    assert total == pytest.approx(every["cross_zone_bytes_after"], abs=len(parts))
    path = tmp_path / "traffic.csv"
    path.write_text(f"topic,bytes_per_day\n{parts[0]['topic']},3e9\n")
    (*_, every) = printed(capsys, "steady-live", "--traffic", str(path))
    assert every["bytes_per_day"] == pytest.approx(3e9)


def test_what_a_reader_of_a_metadata_replica_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Golden lagging: the log of 2 begins at 879, the leader's ends at 1301. Golden isolated: epoch
    1 ends at offset 176 on the leader, so that a reader of it at 10,000 was cut off there.
    """

    def reader(case: str, label: str, *more: str) -> tuple[str, int]:
        rows = printed(capsys, case, *more)
        return next((row["reader"], row["goes_on_from"]) for row in rows if row["replica"] == label)

    low = ("--serves", "10")
    assert reader("lagging", "2", *low, "--reset", "earliest") == ("reset_policy", 879)
    assert reader("lagging", "2", *low) == ("reset_policy", 1301)
    assert reader("lagging", "2", *low, "--reset", "none") == ("tells_the_application", None)
    high = ("--serves", "10000", "--fetched-epoch", "1")
    assert reader("isolated", "1", *high) == ("reset_to_divergence", 176)
    assert reader("isolated", "1", *high, "--reset", "none") == ("raise_log_truncation", 176)
    assert reader("isolated", "12", "--serves", "180") == ("retry", 180)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--watermark", "--max-wait-ms", "-4"], "'-4' is not a whole number of 0 or more"),
        (["--serves", "-3"], "'-3' is not a whole number of 0 or more"),
        (["--bytes-per-day", "abc"], "'abc' is not an amount"),
        (["--price-per-gb", "1e308"], "'1e308' is not an amount"),
    ],
)
def test_numbers_that_say_nothing(
    given: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "replicas", "--input", "x", *given])
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("--reset earliest", "--reset has no effect without --serves"),
        ("--fetched-epoch 3", "--fetched-epoch has no effect without --serves"),
        ("--max-wait-ms 9", "--max-wait-ms has no effect without --watermark"),
        ("--serves 100 --max-wait-ms 9", "--max-wait-ms has no effect without --watermark"),
        ("--watermark --reset none", "--reset has no effect without --serves"),
        ("--serves 100 --selector leader", "--selector has no effect with --serves"),
        ("--staleness --at 100", "--at has no effect with --staleness"),
        ("--staleness --price-per-gb 1", "--price-per-gb has no effect with --staleness"),
        ("--watermark --partitions", "--partitions has no effect with --watermark"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    given: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "replicas", "--input", "x", *given.split()]) == 2
    assert capsys.readouterr().err == f"kraftlog: {says}\n"


def test_what_a_plan_cannot_know_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "isolated")
    assert "rack" not in capsys.readouterr().err
    words = ["plan", "replicas", "--input", str(DATA / "combined" / "replicas")]
    assert main(words) == 0
    assert "no broker names a rack; set broker.rack" in capsys.readouterr().err
    assert main(["plan", "replicas", "--lake", "lake", "--at", "5"]) == 2
    assert "--at needs the files: a lake is asked of its newest state" in capsys.readouterr().err


def test_staleness_and_watermark_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(printed(capsys, "isolated", "--staleness")) == 20
    assert [row["rule"] for row in printed(capsys, "isolated", "--watermark")] == [
        "waits",
        "at_once",
    ]
