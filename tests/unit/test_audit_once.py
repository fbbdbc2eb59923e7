"""One cause is told once: whatever many replicas hold, or what recurs; and an older Kafka's habits
are no findings.
"""

from pathlib import Path

import pytest

from kraftlog.message.catalogue import spec_of
from kraftlog.state.encode import metadata_record
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    audit,
    found,
    quorum,
    snapshot,
    topic,
)

LATER = START_MS + 60_000


def test_a_step_back_that_all_replicas_hold_is_one_info(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (NO_OP,), None, START_MS))
    (one,) = found(audit(tmp_path), "timestamps_monotonic")
    assert (one.severity, one.row.offset) == ("info", 12)
    assert one.row.evidence["replicas"] == ["1", "2", "3"]
    assert "Replicas 1, 2 and 3 hold it." in one.row.message


def test_a_clock_that_is_put_back_again_and_again_is_one_pattern(tmp_path: Path) -> None:
    """Every 30 s by 0.9 s, twenty times."""
    batches = []
    for turn in range(20):
        ahead = LATER + 30_000 * turn
        batches.append(Batch(12 + 2 * turn, 2, (NO_OP,), None, ahead))
        batches.append(Batch(13 + 2 * turn, 2, (NO_OP,), None, ahead - 900))
    for node in quorum(tmp_path):
        node.append(*batches)
    (one,) = found(audit(tmp_path), "timestamps_monotonic")
    evidence = one.row.evidence
    assert (evidence["times"], evidence["under_one_leader"]) == (20, 20)
    assert (evidence["back_ms_least"], evidence["back_ms_most"]) == (900, 900)
    assert evidence["offsets"] == list(range(13, 53, 2))
    assert "20 times" in one.row.message
    assert "Between two steps back they run for 30.9 s (median)." in one.row.message


def test_a_clock_that_is_put_back_by_more_than_it_ran_is_one_pattern(tmp_path: Path) -> None:
    """Every minute by five: each step lies four minutes before the one before it."""
    times = [LATER + 500 * n - 300_000 * (n // 120) for n in range(120 * 6)]
    log = [Batch(12 + n, 2, (NO_OP,), None, ms) for n, ms in enumerate(times)]
    for node in quorum(tmp_path):
        node.append(*log)
    (one,) = found(audit(tmp_path), "timestamps_monotonic")
    assert one.row.evidence["offsets"] == list(range(132, 732, 120))
    assert "by 299,500 ms. Between two steps back they run for 59.5 s (median)." in one.row.message


def test_steps_beyond_any_calendar_are_one_pattern_without_times(tmp_path: Path) -> None:
    times = [one for turn in range(8) for one in ((1 << 60) - turn, -(1 << 60) - turn)]
    for node in quorum(tmp_path):
        node.append(*(Batch(12 + n, 2, (NO_OP,), None, ms) for n, ms in enumerate(times)))
    (one,) = found(audit(tmp_path), "timestamps_monotonic")
    assert one.row.evidence["times"] == 8
    assert "go back 8 times, by " in one.row.message


def test_clocks_that_go_forward_are_no_finding(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (NO_OP,), None, LATER))
    assert not found(audit(tmp_path), "timestamps_monotonic")


def test_an_open_transaction_is_told_once(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (TRANSACTION["begin"], topic("d", 4)), None, LATER))
    (one,) = found(audit(tmp_path), "transactions_well_formed")
    assert one.severity == "info"
    assert one.row.evidence["replicas"] == ["1", "2", "3"]


def test_a_time_that_equal_snapshots_tell_wrongly_is_told_in_equal_words(tmp_path: Path) -> None:
    """So that they stand once, with the names of all: each speaks of the log beside it."""
    for node in quorum(tmp_path):
        node.checkpoint(6, 1).write_bytes(snapshot([], 1, START_MS + 5000))
    told = found(audit(tmp_path), "snapshot_timestamp_agrees")
    assert [one.row.replica for one in told] == ["1", "2", "3"]
    (message,) = {one.row.message for one in told}
    assert ", but the log beside it has 2023-11-14 22:13:23.000 UTC at offset 5." in message


def level(number: int) -> bytes:
    return value("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=number)


def register(broker: int, epoch: int, incarnation: str = "A" * 21 + "E") -> bytes:
    return value(
        "REGISTER_BROKER_RECORD",
        brokerId=broker,
        brokerEpoch=epoch,
        incarnationId=incarnation,
        endPoints=[],
        features=[],
        rack=None,
        fenced=True,
    )


def value(record_type: str, **data: object) -> bytes:
    spec = spec_of(record_type)
    assert spec is not None
    raw = metadata_record(spec, 0, data).value
    assert raw is not None
    return raw


@pytest.mark.parametrize(
    "metadata_version, epoch, is_told",
    [
        (4, 10, False),
        (11, 0, False),
        (12, 10, True),
        (30, 10, True),
        (30, 13, False),
        (4, 15, True),
    ],
    ids=["3.3: two before", "3.5: far before", "3.6", "4.3", "4.3: its own", "3.3: after it"],
)
def test_broker_epochs_as_each_version_wrote_them(
    metadata_version: int, epoch: int, is_told: bool, tmp_path: Path
) -> None:
    for node in quorum(tmp_path):
        node.append(
            Batch(12, 2, (level(metadata_version),), None, LATER),
            Batch(13, 2, (register(7, epoch),), None, LATER),
        )
    rows = found(audit(tmp_path), "broker_epoch_is_offset")
    assert [one.row.offset for one in rows] == ([13] if is_told else [])


def test_an_older_broker_epoch_never_goes_back(tmp_path: Path) -> None:
    again = register(7, 9, "A" * 21 + "I")
    for node in quorum(tmp_path):
        node.append(
            Batch(12, 2, (level(4),), None, LATER),
            Batch(13, 2, (register(7, 11),), None, LATER),
            Batch(14, 2, (again,), None, LATER),
        )
    (one,) = found(audit(tmp_path), "broker_epoch_is_offset")
    assert one.row.offset == 14
