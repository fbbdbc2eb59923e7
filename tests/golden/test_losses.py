"""Random losses on copies of real quorums whose high watermark is known: folders left away, logs
emptied or cut at a batch's end while the files beside them stay. No verdict may say more than what
is left proves.
"""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraftlog.audit.losses import Cut, cuts_of, losses_of
from kraftlog.audit.runner import AuditResult, audit_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.committed import committed_cut
from kraftlog.quorum.evidence import Losses
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from tests.collecting import collect
from tests.golden.cases import DATA, PARTITION, scenario
from tests.property.engines import flipped

CASES = (
    "isolated",
    "isolated-healed",
    "lagging",
    "lagging-caughtup",
    "upgraded-3.9",
    "steady-live",
)
ROUNDS = 8
COMPARISONS = ("committed_data_consistent", "log_matching", "snapshots_agree")
EMPTIED, CUT = "emptied", "cut"


@dataclass(frozen=True)
class Loss:
    """What was done to one replica: the offset where its log ends now."""

    node: int
    kind: str
    end: int


def quorum_of(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), Limits(), Redactor(None), replay=False))


def whole(case: str) -> Quorum:
    return quorum_of(DATA / case / "replicas")


def most_committed(case: str, quorum: Quorum) -> int:
    """The furthest that a majority held: the copies were made a moment after the describe."""
    told, voters = scenario(case), scenario(case)["voters"]
    newest = max(log.last_epoch or 0 for log in quorum.logs)
    ends = sorted(
        (
            log.end_offset or 0
            for log in quorum.logs
            if log.evidence.node_id in voters and log.last_epoch == newest
        ),
        reverse=True,
    )
    held = ends[len(voters) // 2] if len(ends) > len(voters) // 2 else 0
    return max(int(told["high_watermark"]), held)


def damaged(case: str, quorum: Quorum, root: Path, draw: random.Random) -> Iterator[Loss]:
    """Copy some of the replicas, and take the end of some of their logs away."""
    logs = draw.sample(list(quorum.logs), draw.randint(1, len(quorum.logs)))
    for log in logs:
        node, folder = log.evidence.node_id, root / log.label
        assert node is not None
        shutil.copytree(DATA / case / "replicas" / log.label, folder, copy_function=shutil.copyfile)
        kind = draw.choice(["", "", "", EMPTIED, CUT, CUT])
        segments = sorted((folder / PARTITION).glob("*.log"))
        if kind == EMPTIED:
            for path in segments:
                path.write_bytes(b"")
            yield Loss(node, kind, int(segments[0].stem))
        elif kind == CUT:
            columns, rows = log.evidence.log, log.rows
            last = [row for row in rows.tolist() if columns.file[row] == len(segments) - 1][1:]
            if last:
                row = draw.choice(last)
                position = int(columns.positions[row])
                segments[-1].write_bytes(segments[-1].read_bytes()[:position])
                yield Loss(node, kind, int(columns.base_offsets[row]))


def is_witnessed(root: Path, loss: Loss) -> bool:
    """Whether a side file of the node, read by itself, knows of the lost end."""
    folder = root / str(loss.node) / PARTITION
    lines = (folder / "leader-epoch-checkpoint").read_text().split("\n")[2:]
    starts = [int(line.split()[1]) for line in lines if line.strip()]
    closed = [int(path.stem) for path in folder.glob("*.snapshot")]
    return any(one >= loss.end for one in starts) or any(one > loss.end for one in closed)


def audited(root: Path) -> tuple[Quorum, AuditResult]:
    evidence = collect(find_replicas([str(root)]), Limits(), Redactor(b"k" * 32))
    return Quorum(evidence), audit_of(Quorum(evidence))


@pytest.mark.parametrize("case", CASES)
def test_no_verdict_says_more_than_what_is_left(case: str, tmp_path: Path) -> None:
    quorum = whole(case)
    most, voters = most_committed(case, quorum), scenario(case)["voters"]
    witnessed = 0
    for number in range(ROUNDS):
        root = tmp_path / str(number)
        losses = list(damaged(case, quorum, root, random.Random(f"{case} {number}")))
        found, result = audited(root)
        bounds, told = found.bounds, f"{case} round {number}: {losses}"
        assert bounds.lower <= most, told
        assert bounds.upper is None or bounds.upper >= scenario(case)["high_watermark"], told
        ends = {one.node_id: one.severity for one in result.findings if one.check == "log_end_lost"}
        for loss in losses:
            if is_witnessed(root, loss):
                witnessed += 1
                assert ends[loss.node] == ("critical" if loss.node in voters else "warning"), told
        assert set(ends) <= {loss.node for loss in losses}, told
        by_check = {one.check: one for one in result.results}
        if len(found.logs) == 1:
            assert not [one for one in COMPARISONS if by_check[one].result == "passed"], told
        copied = {log.evidence.node_id for log in found.logs}
        assert set(result.verdict.missing_voters) == set(voters) - copied, told
        if not copied >= set(voters):
            assert result.verdict.grade != "sound", told
            assert result.exit_code(strict=True) == 1, told
        shutil.rmtree(root)
    assert witnessed


SNAPSHOT = "00000000000000000265-0000000001.checkpoint"
"""It ends behind offset 240, where the logs of `unregistered-4.4` are cut."""


def cut_at(end: int, root: Path) -> Quorum:
    """Three voters whose logs end at an offset."""
    for log in (one for one in whole("unregistered-4.4").logs if one.evidence.node_id in (1, 2, 3)):
        shutil.copytree(
            DATA / "unregistered-4.4" / "replicas" / log.label, root / log.label,
            copy_function=shutil.copyfile,
        )  # fmt: skip
        columns, (path,) = log.evidence.log, (root / log.label / PARTITION).glob("*.log")
        (at,) = columns.positions[columns.base_offsets == end].tolist()
        path.write_bytes(path.read_bytes()[:at])
    return quorum_of(root)


def lost_by(quorum: Quorum, cut: Cut) -> Losses:
    return losses_of(quorum, FileRecords(Redactor(None), Limits()), [cut])[cut]


def test_what_only_a_snapshot_holds_is_told_as_a_log_tells_it(tmp_path: Path) -> None:
    expected = lost_by(cut_at(265, tmp_path / "whole"), ("1", 240))
    left = tmp_path / "left"
    cut_at(240, left)
    for node in "12":
        (left / node / PARTITION / SNAPSHOT).unlink()
    quorum = quorum_of(left)
    cut = (str(left / "3" / PARTITION / SNAPSHOT), 240)
    assert cut in cuts_of(quorum)
    found = lost_by(quorum, cut)
    assert found.objects
    assert expected.objects
    assert {(one.table, one.change, one.count, frozenset(one.names)) for one in found.objects} == {
        (one.table, one.change, one.count, frozenset(one.names)) for one in expected.objects
    }
    told = [one for one in audited(left)[1].findings if one.check == "voter_holds_committed_data"]
    assert {one.severity for one in told} == {"critical"}
    assert all("Lost: topics ledger.v1-21, invoices.raw-22;" in one.row.message for one in told)


def test_what_is_committed_is_told_by_a_copy_without_a_hole(tmp_path: Path) -> None:
    """Copies 1, 3 and 11 end alike, and the first one has a damaged batch far below the cut."""
    for label in ("1", "2", "3", "11"):
        shutil.copytree(
            DATA / "isolated" / "replicas" / label, tmp_path / label, copy_function=shutil.copyfile
        )
    (path,) = (tmp_path / "1" / PARTITION).glob("*.log")
    path.write_bytes(flipped(path.read_bytes(), 9_000 * 8))
    quorum = quorum_of(tmp_path)
    cut = committed_cut(quorum, 176)
    assert cut is not None
    assert lost_by(quorum, cut).objects
