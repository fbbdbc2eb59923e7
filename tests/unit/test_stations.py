"""Where copies part, the way through the shared history leaves its state: what goes with the end of
a log, and what a copy has otherwise, is the same as from the newest snapshot, of files and of runs.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import tests.unit.faults  # noqa: F401  (it declares the faults)
from kraftlog.audit import losses
from kraftlog.audit.images import Stations
from kraftlog.audit.losses import apart_in, cuts_of, losses_of, stations_of
from kraftlog.audit.state_history import with_state
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.materialize import materialize
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from tests.collecting import collect
from tests.in_process import run_of
from tests.unit.audit_logs import quorum
from tests.unit.faults.table import FAULTS, Fault

CHECKS = (
    "committed_data_consistent",
    "uncommitted_tail_diverged",
    "voter_holds_committed_data",
)
PARTED = [one for one in FAULTS if one.check in CHECKS]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where states were taken from the way, and not from a snapshot."""
    found: list[int] = []
    whole: Callable[..., tuple[object, int] | None] = losses._Replays._begun

    def seen(self: losses._Replays, *asked: object) -> tuple[object, int] | None:
        known = whole(self, *asked)
        if known is not None and known[1] in self.stations.states:
            found.append(known[1])
        return known

    monkeypatch.setattr(losses._Replays, "_begun", seen)
    return found


def parted(one: Fault, root: Path) -> tuple[Quorum, FileRecords]:
    one.damage(quorum(root))
    evidence = collect(find_replicas([str(root)]), one.limits, Redactor(None), replay=False)
    return Quorum(evidence), FileRecords(Redactor(None), one.limits)


def test_what_goes_is_the_same_from_wherever_a_replay_begins(
    tmp_path: Path, begun: list[int]
) -> None:
    used = 0
    for number, one in enumerate(PARTED):
        found, records = parted(one, tmp_path / str(number))
        begun.clear()
        state = with_state(found, records).state
        assert state is not None
        used += bool(begun)
        assert state.losses == losses_of(found, records, cuts_of(found)), one.says
        assert state.apart == apart_in(found, records), one.says
    assert used >= 20


def test_so_it_is_of_a_run(tmp_path: Path, begun: list[int]) -> None:
    used = 0
    for number, check in enumerate(CHECKS):
        one = next(one for one in PARTED if one.check == check)
        parted(one, tmp_path / str(number))
        run = run_of(tmp_path / str(number), tmp_path / f"lake{number}")
        assert decode(run)
        told = materialize(run)
        begun.clear()
        by_run = with_state(run.quorum, run.records, told)
        used += told is not None and bool(begun)
        assert by_run == with_state(run.quorum, run.records)
    assert used


def test_within_a_transaction_no_state_is_left(tmp_path: Path) -> None:
    found, records = parted(PARTED[0], tmp_path)
    stations = Stations.none(records)
    stations.offsets = stations_of(found, cuts_of(found))
    known = stations.images.of(found.own_snapshots[0])
    assert known is not None
    (at, *_) = stations.offsets
    known.known.small.open_since = at
    stations.pass_by(at, known.known)
    assert not stations.states
    known.known.small.open_since = None
    stations.pass_by(at, known.known)
    stations.pass_by(at + 1, known.known)
    assert list(stations.states) == [at]
