"""The liveness of a slow link: the seed's figures, recomputed (KIP-1219)."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import UsageError
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.joining import DEFAULT_FETCH_BYTES, FORMER_FETCH_BYTES
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import MIB
from kraftlog.simulate.liveness import (
    CHUNKS,
    EXAMPLE_LINKS,
    Link,
    Transfer,
    least_bandwidth,
    recommended_chunk_bytes,
    snapshot_transfer_rows,
)
from tests.collecting import collect
from tests.unit.audit_logs import START_MS, healthy_log, leader_change, quorum, snapshot

KBIT_500, KBYTE_500 = Link(500_000 // 8, 0), Link(500_000, 0)


def test_the_claim_of_500_kb_per_second() -> None:
    """KIP-1219: it holds read as neither bits nor bytes."""
    assert DEFAULT_FETCH_BYTES == 1_048_576
    assert KBIT_500.response_ms(MIB) == 16_777.216
    assert KBYTE_500.response_ms(MIB) == 2_097.152
    assert not KBIT_500.fits(MIB)
    assert not KBYTE_500.fits(MIB)  # by 97 ms
    assert least_bandwidth(MIB) == 524_288.0
    assert least_bandwidth(MIB) * 8 == 4_194_304  # type: ignore[operator]
    assert least_bandwidth(FORMER_FETCH_BYTES) * 8 == 33_554_432  # type: ignore[operator]


def test_the_boundary_of_the_timeout() -> None:
    """KIP-1219: never where round trip + chunk / bandwidth is more than the timeout."""
    assert Link(524_288, 0).fits(MIB)
    assert not Link(524_287, 0).fits(MIB)
    assert not Link(524_288, 1).fits(MIB)
    assert Link(524_288, 1).fits(MIB, timeout_ms=2_001)
    assert least_bandwidth(MIB, 1_000) == 1_048_576.0
    assert least_bandwidth(1, 2_000) is None


def test_transfer_time() -> None:
    """KIP-1219: 10 MiB at 1 MiB/s with 50 ms: ten requests of 1,050 ms."""
    one = Transfer(10 * MIB, Link(MIB, 50))
    assert (one.request_count, one.transfer_ms, one.longest_response_ms) == (10, 10_500.0, 1_050.0)
    assert one.finishes
    rest = Transfer(10 * MIB + 1, Link(MIB, 50))
    assert rest.request_count == 11
    assert rest.transfer_ms == pytest.approx(10_550 + 1000 / MIB)
    small = Transfer(1000, Link(1000, 50))
    assert (small.request_count, small.longest_response_ms) == (1, 1_050.0)
    assert Transfer(0, Link(1, 9)).request_count == 0


def test_the_former_limit_never_finishes_where_the_new_one_does() -> None:
    """KAFKA-19541 on 10 Mbit/s: 8 MiB take 6.7 s."""
    link = Link(1_250_000, 0)
    former = Transfer(20 * MIB, link, FORMER_FETCH_BYTES)
    assert former.longest_response_ms == 6_710.8864
    assert not former.finishes
    assert Transfer(20 * MIB, link).finishes
    # A snapshot that is smaller than the chunk is only as long as itself.
    assert Transfer(2 * MIB, link, FORMER_FETCH_BYTES).finishes


def test_eight_times_smaller_is_not_eight_times_slower() -> None:
    """KIP-1219: it is only where the bytes cost nothing beside the round trips."""
    assert Transfer(80 * MIB, Link(MIB, 50)).slowdown == pytest.approx(84_000 / 80_500)
    assert Transfer(80 * MIB, Link(10**15, 50)).slowdown == pytest.approx(8, rel=1e-4)
    assert Transfer(80 * MIB, Link(MIB, 0)).slowdown == 1
    assert Transfer(0, Link(1, 9)).slowdown == 1


def test_the_recommended_setting() -> None:
    assert recommended_chunk_bytes(Link(125_000_000, 1)) == FORMER_FETCH_BYTES
    assert recommended_chunk_bytes(Link(MIB, 0)) == MIB
    assert recommended_chunk_bytes(Link(MIB, 1)) == MIB // 2
    assert recommended_chunk_bytes(KBIT_500) == 32_768
    assert recommended_chunk_bytes(Link(MIB, 1_000)) is None
    assert recommended_chunk_bytes(Link(MIB, 1_000), timeout_ms=4_000) == MIB


@pytest.mark.parametrize("wrong", [lambda: Link(0, 1), lambda: Link(1, -1)])
def test_impossible_links(wrong: object) -> None:
    with pytest.raises(UsageError):
        wrong()  # type: ignore[operator]
    for chunk, timeout in ((0, 1), (1, -1)):
        with pytest.raises(UsageError):
            Transfer(1, Link(1, 1), chunk, timeout)
    assert Transfer(1, Link(1000, 0), 1, 1).finishes  # one byte in one millisecond


def test_a_timeout_of_nothing_is_one_that_kafka_takes_and_nothing_meets() -> None:
    transfer = Transfer(1, Link(MIB, 0), 1, 0)
    assert not transfer.finishes
    assert recommended_chunk_bytes(Link(MIB, 0), 0) is None


# --- Over a quorum ------------------------------------------------------------------------------


def rows_of(root: Path, **given: Any) -> list[dict[str, Any]]:
    evidence = collect(find_replicas([str(root)]), Limits(), Redactor(None))
    return list(snapshot_transfer_rows(Quorum(evidence), 1e6, **given))


def test_one_row_per_replica_link_and_chunk(tmp_path: Path) -> None:
    quorum(tmp_path)
    rows = rows_of(tmp_path)
    suited = sum(recommended_chunk_bytes(link) not in CHUNKS for link in EXAMPLE_LINKS)
    assert suited == 2  # 32 KiB over 500 kbit/s, 256 KiB over 500 kB/s
    assert len(rows) == 3 * (len(EXAMPLE_LINKS) * len(CHUNKS) + suited)
    assert [row["replica"] for row in rows if row["is_leading"]] == ["2"] * (len(rows) // 3)
    assert {(row["snapshot_end_offset"], row["snapshot_epoch"]) for row in rows} == {(6, 1)}
    assert all(row["finishes"] and not row["likely_stuck"] for row in rows)


def test_a_stuck_node_is_seen_by_three_signs(tmp_path: Path) -> None:
    """KIP-1219: the link is too slow, a snapshot was never finished, and epochs storm."""
    nodes = quorum(tmp_path)
    slow: dict[str, Any] = {"links": [Link(100, 100)], "chunks": [DEFAULT_FETCH_BYTES]}

    def likely(links: list[Link]) -> set[bool]:
        return {row["likely_stuck"] for row in rows_of(tmp_path, **{**slow, "links": links})}

    assert not rows_of(tmp_path, **slow)[0]["finishes"]
    assert likely(slow["links"]) == {False}
    part = nodes[2].checkpoint(6, 1).with_name(nodes[2].checkpoint(6, 1).name + ".part")
    part.write_bytes(b"begun")
    assert likely(slow["links"]) == {False}
    for node in nodes:
        node.append(*(leader_change(12 + i, 3 + i, 1, START_MS + 20_000 + i) for i in range(29)))
    assert likely(slow["links"]) == {True}
    assert likely([Link(10**6, 1)]) == {False}
    assert rows_of(tmp_path, **slow)[0]["unfinished_by"] == ["3"]


def test_snapshots_that_are_written_meanwhile(tmp_path: Path) -> None:
    """KIP-630 "FetchSnapshot": every 4 s by the headers of (6, 1) and (10, 2)."""
    nodes = quorum(tmp_path)
    assert rows_of(tmp_path)[0]["newer_snapshots"] is None
    nodes[0].checkpoint(10, 2).write_bytes(snapshot(healthy_log()[1:4], 2, START_MS + 7000))
    (row, *_) = rows_of(tmp_path, links=[Link(10**9, 10_000)], chunks=[MIB])
    assert (row["snapshot_end_offset"], row["transfer_ms"]) == (10, 10_001)
    assert row["newer_snapshots"] == 2.5
    (row, *_) = rows_of(tmp_path, links=[Link(10**9, 10_002)], chunks=[MIB])
    assert row["newer_snapshots"] == 2.501  # of 2.5005


def test_a_batch_that_no_fetch_can_bring(tmp_path: Path) -> None:
    """KIP-1219: a Fetch brings at least one batch, whatever its limit."""
    quorum(tmp_path)
    largest = rows_of(tmp_path)[0]["largest_batch_bytes"]
    fits = [
        rows_of(tmp_path, links=[Link(rate, 0)], timeout_ms=1000)[0]["largest_batch_fits"]
        for rate in (largest, largest - 1)
    ]
    assert fits == [True, False]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quorum(tmp_path)
    plan = ["plan", "snapshot", "--input", str(tmp_path), "--format", "json"]
    assert main([*plan, "--bandwidth", "500", "--round-trip-ms", "7", "--chunk", "100"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 3
    assert {row["longest_response_ms"] for row in rows} == {207}
    assert main([*plan, "--round-trip-ms", "7"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["round_trip_ms"] for row in rows} == {7}
    for wrong in ("--bandwidth", "--chunk", "--fetch-timeout-ms"):
        with pytest.raises(SystemExit):
            main([*plan, wrong, "0"])
        assert "not a whole number of 1 or more" in capsys.readouterr().err


def test_the_answer_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether all arrive, and if not, what keeps the slowest from it; people see a line for each."""

    def said(*words: str) -> tuple[list[str], str]:
        assert main(["plan", "snapshot", "--input", str(tmp_path), *words]) == 0
        told = capsys.readouterr()
        return told.out.splitlines(), told.err

    nodes = quorum(tmp_path)
    lines, answer = said()
    assert answer == "kraftlog: each snapshot and the log after it arrive within 0.2 s\n"
    assert lines[0].split()[0] == "replica"
    assert len(lines) == 1 + len(rows_of(tmp_path))
    link = ("--bandwidth=200", "--round-trip-ms=0")
    slow = said(*link, "--chunk=1000")[1]
    assert "3 of 3 transfers never end. An answer of up to 1,000 bytes over 200 bytes/s " in slow
    assert "From Kafka 4.3 on 128 bytes for controller.quorum.fetch.snapshot.max.byt" in slow
    for at_once in (
        said("--bandwidth=50", "--round-trip-ms=0")[1],
        said("--round-trip-ms=3000")[1],
    ):
        assert "Raise controller.quorum.fetch.timeout.ms and controller.quorum.req" in at_once
    nodes[0].checkpoint(10, 2).write_bytes(snapshot(healthy_log()[1:4], 2, START_MS + 7000))
    assert "over 62,500 bytes/s a snapshot may be deleted" not in said()[1]
    far = said("--bandwidth=62500", "--round-trip-ms=1500", "--chunk=100")[1]
    assert "but over 62,500 bytes/s a snapshot may be deleted while it is fetched" in far


def test_nothing_to_fetch_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for node in quorum(tmp_path):
        node.checkpoint(6, 1).unlink()
    assert main(["plan", "snapshot", "--input", str(tmp_path)]) == 0
    assert "no replica holds a complete snapshot" in capsys.readouterr().err
