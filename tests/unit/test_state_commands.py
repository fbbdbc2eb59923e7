"""`state`, `diff` and `checkpoint` as a user meets them: rows, notes, files, and what they
refuse.
"""

from __future__ import annotations

import json
import shutil
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kraftlog
from kraftlog.cli import build_parser
from kraftlog.commands.values import time_ms
from kraftlog.decode.redaction import MASK_PREFIX
from kraftlog.errors import InputError, KraftlogError, UsageError
from tests.golden.cases import Replica
from tests.property.engines import flipped
from tests.unit.audit_logs import Batch, quorum, topic
from tests.unit.faults.table import LATER

Printed = pytest.CaptureFixture[str]
LIVE = Replica("steady-live", "14")


def run(*arguments: str | Path) -> int:
    words = [str(one) for one in arguments]
    chosen = build_parser(words[0]).parse_args(words)
    status = chosen.command(chosen)
    assert isinstance(status, int)
    return status


def rows(capsys: Printed, *arguments: str | Path) -> list[dict[str, Any]]:
    assert run(*arguments, "--format", "json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_state_at_the_end(capsys: Printed) -> None:
    given = rows(capsys, "state", LIVE.folder, "--reveal-secrets")
    wanted = [
        {"type": row["type"], "record_version": row["version"], "data": row["data"]}
        for row in LIVE.image()
    ]
    assert given == wanted


def test_state_tells_what_it_could_not_take(tmp_path: Path, capsys: Printed) -> None:
    folder = tmp_path / "2"
    shutil.copytree(ISOLATED.folder, folder, copy_function=shutil.copyfile)
    (path,) = folder.rglob("*.log")
    data = path.read_bytes()
    path.write_bytes(flipped(data, (len(data) - 40) * 8))
    run("state", folder)
    assert "behind that cannot be read, in 1 place: " in capsys.readouterr().err
    run("state", Replica("synthetic-semantics", "0").folder)
    assert "without effect" not in capsys.readouterr().err
    run("state", Replica("synthetic-every-type", "0").folder)
    assert " records without effect, the first at offset " in capsys.readouterr().err


def test_state_masks_secrets(capsys: Printed) -> None:
    given = rows(capsys, "state", LIVE.folder, "--type", "USER_SCRAM_CREDENTIAL_RECORD")
    assert given
    assert all(row["data"]["salt"].startswith(MASK_PREFIX) for row in given)


def test_state_at_an_offset_and_at_a_time(capsys: Printed) -> None:
    assert rows(capsys, "state", LIVE.folder, "--at", "0") == []
    assert len(rows(capsys, "state", LIVE.folder, "--at", "60")) > 0
    segment = next((row for row in LIVE.batches() if row.get("base_offset") == 60), None)
    at = str(segment["max_timestamp"]) if segment else str(1 << 50)
    assert len(rows(capsys, "state", LIVE.folder, "--at-time", at)) > 0


def test_times_that_go_back_are_told_of_a_state_at_a_time(tmp_path: Path, capsys: Printed) -> None:
    """A leader whose clock was ahead: what came after it is not later, and not in the state."""
    node = quorum(tmp_path)[0]
    ahead = Batch(12, 2, (topic("x", 8),), None, LATER + 7_200_000)
    node.append(ahead, Batch(13, 2, (topic("y", 9),), None, LATER + 500))
    told = "before offset 12, the first that is later. Behind it offset 13 is of an earlier time"
    for ms, is_told in ((100, False), (1000, True), (8_000_000, False)):
        run("state", node.folder, "--at-time", str(LATER + ms), "--type", "TOPIC_RECORD")
        printed = capsys.readouterr()
        assert (told in printed.err) is is_told
        assert ('"y"' in printed.out) is (ms == 8_000_000)


def test_what_a_node_was_formatted_with_is_no_state(capsys: Printed) -> None:
    """Before Kafka's first record: controller 4 was formatted for levels that its quorum never had.
    The voters that a node was formatted with hold, as its Raft layer has them from there.
    """
    ghost = Replica("ghosts-4.4", "4")
    first = ghost.image_digests()[0]
    assert first["records"] == 0
    assert rows(capsys, "state", ghost.folder, "--at", str(first["end_offset"])) == []
    formatted = ghost.log_dir / "00000000000000000000-0000000000.checkpoint"
    assert rows(capsys, "state", formatted, "--type", "FEATURE_LEVEL_RECORD")
    state = kraftlog.open(str(Replica("ghosts-4.4", "1").folder))["1"].image(at=0).state
    assert (len(state.rows("voters")), len(state.rows("features"))) == (3, 0)


def test_notes_go_to_stderr(capsys: Printed) -> None:
    run("state", Replica("synthetic-transactions", "0").folder)
    notes = capsys.readouterr().err
    assert "a transaction is open since offset" in notes
    assert "nothing proves that records from offset 60 on are committed (the complete" in notes
    assert "; --quorum ROOT asks all copies)" in notes


ISOLATED = Replica("isolated", "2")
QUORUM = ISOLATED.folder.parent
TAIL_START = 176  # from here on the dead leader's log was never committed


def test_the_quorum_says_what_is_committed(capsys: Printed) -> None:
    """Without it the copy's own files are asked, by the same rules: what its log proves is known."""
    copy = Replica("isolated", "1").folder
    run("state", copy, "--quorum", QUORUM)
    assert " committed" not in capsys.readouterr().err
    for asked in ((), ("--quorum", copy)):
        run("state", copy, "--at", "177", *asked)
        assert " committed" not in capsys.readouterr().err
        run("state", copy, "--at", "178", *asked)
        unproven = (
            "1: nothing proves that records from offset 177 on are committed (replica 1 holds"
        )
        assert unproven in (told := capsys.readouterr().err)
        assert ("--quorum ROOT asks all copies" in told) is (not asked)


def test_a_tail_that_the_quorum_replaced_is_not_committed(capsys: Printed) -> None:
    """The quorum has committed 362 offsets, but of this copy only the records before its tail."""
    run("state", ISOLATED.folder, "--quorum", QUORUM)
    notes = capsys.readouterr().err
    assert f"records from offset {TAIL_START} on are committed (the other copies hold" in notes


def test_state_as_far_as_it_is_committed(capsys: Printed) -> None:
    clear = ("state", ISOLATED.folder, "--reveal-secrets")
    given = rows(capsys, *clear, "--at", "committed", "--quorum", QUORUM)
    assert given == rows(capsys, *clear, "--at", str(TAIL_START))
    assert given != rows(capsys, *clear)
    run("state", ISOLATED.folder, "--at", "committed", "--quorum", QUORUM)
    assert "proves that records" not in capsys.readouterr().err


def test_a_replica_that_is_behind_is_committed_up_to_its_end(capsys: Printed) -> None:
    behind = Replica("lagging", "12").folder
    run("state", behind, "--at", "committed", "--quorum", behind.parent)
    assert "12 at offset 125" in capsys.readouterr().err


def test_without_a_quorum_a_copys_own_files_prove_less(capsys: Printed, tmp_path: Path) -> None:
    """Its newest snapshot, and what its leader waited for before it wrote; both by one rule, which
    also goes for `--quorum` with that copy alone.
    """
    newest = max(int(one.name[:20]) for one in LIVE.log_dir.glob("*.checkpoint"))
    single = Replica("combined", "1")
    for copy, end in (
        (LIVE, newest),
        (ISOLATED, 3),
        (single, single.image_digests()[-1]["end_offset"]),
    ):
        clear = ("state", copy.folder, "--reveal-secrets", "--at")
        told = rows(capsys, *clear, "committed")
        assert told == rows(capsys, *clear, str(end))
        assert told == rows(capsys, *clear, "committed", "--quorum", copy.folder)
    run("state", Replica("isolated", "1").folder, "--at", "committed")
    assert "1: of what follows nothing is proven (replica 1 holds" in capsys.readouterr().err
    unnamed = tmp_path / "old.checkpoint"
    shutil.copyfile(max(LIVE.log_dir.glob("*.checkpoint")), unnamed)
    with pytest.raises(InputError, match=r"nothing is known to be committed.*--quorum"):
        run("state", unnamed, "--at", "committed")


def test_states_of_two_clusters_are_told_to_be_so(capsys: Printed, tmp_path: Path) -> None:
    """By what stands beside the logs; a checkpoint by itself is of no cluster that anything names."""
    told = "neither state has become the other"
    one, other = Replica("isolated", "1").folder, Replica("lagging", "1").folder
    run("diff", one, other)
    assert told in capsys.readouterr().err
    run("diff", one, Replica("isolated", "2").folder)
    run("diff", one, max(LIVE.log_dir.glob("*.checkpoint")))
    assert told not in capsys.readouterr().err
    with pytest.raises(UsageError, match="/dev/null is a file; name a folder as --out"):
        run("checkpoint", one, "--out", "/dev/null")


def test_a_path_outside_the_quorum_is_refused() -> None:
    with pytest.raises(UsageError, match="is none of the replicas of --quorum"):
        run("state", LIVE.folder, "--quorum", QUORUM)


def test_a_checkpoint_file_belongs_to_its_replica(capsys: Printed) -> None:
    file = max(LIVE.log_dir.glob("*.checkpoint"))
    run("state", file, "--quorum", LIVE.folder.parent)
    assert "proves that records" not in capsys.readouterr().err


def test_an_offset_is_a_number(capsys: Printed) -> None:
    with pytest.raises(SystemExit):
        run("state", LIVE.folder, "--at", "soon")
    assert "'soon' is not an offset, nor 'committed'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["state", "diff", "checkpoint"])
def test_every_way_to_name_a_place_has_an_example(command: str, capsys: Printed) -> None:
    with pytest.raises(SystemExit):
        run(command, "--help")
    text = capsys.readouterr().out
    _, _, examples = text.partition("examples:")
    offset, committed = ("@176", "@committed") if command == "diff" else ("--at 176", "committed")
    for place in (offset, committed, "--quorum replicas/"):
        assert place in examples
    assert "--at-time" in text or "@2026-11-21T12:00:00Z" in examples


def test_several_replicas_below_a_path_are_named() -> None:
    with pytest.raises(UsageError, match=r"\(1, 11, 12.*name the folder of one"):
        run("state", LIVE.folder.parent)


def test_a_missing_path_and_a_missing_offset() -> None:
    with pytest.raises(InputError, match="no such folder"):
        run("state", "/does/not/exist")
    with pytest.raises(InputError, match="which ends at"):
        run("state", LIVE.folder, "--at", "123456789")


def test_diff_by_key_and_field(capsys: Printed) -> None:
    folder = Replica("combined", "1").folder
    found = rows(capsys, "diff", f"{folder}@100", folder)
    assert found
    assert {row["change"] for row in found} <= {"added", "removed", "changed"}
    fenced = [row for row in found if row["field"] == "fenced"]
    assert fenced == [
        {
            "table": "brokers",
            "key": [1],
            "change": "changed",
            "field": "fenced",
            "before": False,
            "after": True,
        }
    ]


def test_diff_with_what_is_committed_and_between_times(capsys: Printed) -> None:
    folder = ISOLATED.folder
    clear = ("--reveal-secrets",)
    tail = rows(capsys, "diff", f"{folder}@committed", folder, "--quorum", QUORUM, *clear)
    assert tail == rows(capsys, "diff", f"{folder}@{TAIL_START}", folder, *clear)
    topics = [row["after"]["name"] for row in tail if row["table"] == "topics" and row["after"]]
    assert "ghost-topic-a" in topics
    batch = next(row for row in ISOLATED.batches() if row.get("base_offset") == TAIL_START)
    just_before = batch["max_timestamp"] - 1
    moment = datetime.fromtimestamp(just_before / 1000, UTC).isoformat()
    assert rows(capsys, "diff", f"{folder}@{moment}", folder, *clear) == tail
    for name in ("soon", "³"):
        with pytest.raises(InputError, match=rf"@{name}: there is no such folder"):
            run("diff", f"{folder}@{name}", folder)


@pytest.mark.parametrize("text", ["²", "--5", "-", "9" * 5000, "soon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    assert (time_ms("-5"), time_ms("1970-01-01T00:00:01Z")) == (-5, 1000)
    with pytest.raises(UsageError, match="is not a time"):
        time_ms(text)


def test_equal_secrets_are_no_difference_though_masked(capsys: Printed) -> None:
    other = Replica("steady-live", "1").folder
    end = max(row["end_offset"] for row in LIVE.image_digests())
    found = rows(capsys, "diff", f"{LIVE.folder}@{end}", f"{other}@{end}")
    assert found == []


def test_offsets_within_a_snapshot_mean_nothing(tmp_path: Path, capsys: Printed) -> None:
    """KIP-630 "Snapshot Format": BaseOffset need not be valid, and no CRC covers it."""
    source = sorted(LIVE.log_dir.glob("*.checkpoint"))[-1]
    raw, at, number = bytearray(source.read_bytes()), 0, 0
    while at < len(raw):
        struct.pack_into(">q", raw, at, 1_000_000 - number)
        at, number = at + 12 + int(struct.unpack_from(">i", raw, at + 8)[0]), number + 1
    assert number > 2
    other = tmp_path / source.name
    other.write_bytes(raw)
    assert rows(capsys, "diff", source, other) == []
    told = [rows(capsys, "state", one, "--reveal-secrets") for one in (source, other)]
    assert told[0] == told[1] != []


def test_diff_of_two_checkpoint_files(capsys: Printed) -> None:
    first, *_, last = sorted(Replica("synthetic-snapshots", "0").log_dir.glob("*.checkpoint"))
    assert rows(capsys, "diff", first, first) == []
    assert rows(capsys, "diff", first, last)


def test_checkpoint_is_the_state(tmp_path: Path, capsys: Printed) -> None:
    assert run("checkpoint", LIVE.folder, "--at", "400", "--out", tmp_path) == 0
    printed = capsys.readouterr()
    (file,) = tmp_path.iterdir()
    assert printed.out.strip() == str(file)
    assert "secrets in clear" in printed.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.name.startswith(f"{400:020d}-")
    assert rows(capsys, "diff", file, f"{LIVE.folder}@400") == []
    assert "offset 400 lies inside a batch, of offsets 397 to 417, not at 397 or 418" in printed.err
    clear = rows(capsys, "state", file, "--reveal-secrets")
    assert clear == rows(capsys, "state", LIVE.folder, "--at", "400", "--reveal-secrets")


def test_between_batches_a_checkpoint_is_whole(tmp_path: Path, capsys: Printed) -> None:
    assert run("checkpoint", LIVE.folder, "--at", "397", "--out", tmp_path) == 0
    assert "inside a batch" not in capsys.readouterr().err


def test_a_checkpoint_of_what_is_committed(tmp_path: Path, capsys: Printed) -> None:
    place = ("--at", "committed", "--quorum", QUORUM)
    assert run("checkpoint", ISOLATED.folder, *place, "--out", tmp_path) == 0
    (file,) = tmp_path.iterdir()
    assert file.name.startswith(f"{TAIL_START:020d}-")
    capsys.readouterr()
    assert rows(capsys, "diff", file, f"{Replica('isolated', '1').folder}@{TAIL_START}") == []


def test_checkpoint_never_replaces_another_file(tmp_path: Path) -> None:
    run("checkpoint", LIVE.folder, "--out", tmp_path)
    (file,) = tmp_path.iterdir()
    run("checkpoint", LIVE.folder, "--out", tmp_path)
    file.write_bytes(b"something else")
    with pytest.raises(UsageError, match="holds something else"):
        run("checkpoint", LIVE.folder, "--out", tmp_path)
    assert file.read_bytes() == b"something else"
    assert list(tmp_path.iterdir()) == [file]


def test_checkpoint_with_and_without_voters(tmp_path: Path, capsys: Printed) -> None:
    run("checkpoint", LIVE.folder, "--out", tmp_path / "with")
    run("checkpoint", LIVE.folder, "--out", tmp_path / "without", "--without-voters")
    with_voters, without = (next((tmp_path / name).iterdir()) for name in ("with", "without"))
    capsys.readouterr()
    found = rows(capsys, "diff", with_voters, without)
    assert {row["table"] for row in found} == {"voters", "kraft_version"}


@pytest.mark.parametrize(
    "case, offset, sentence",
    [("combined", "0", "at least one record"), ("synthetic-transactions", "66", "is open at 66")],
)
def test_checkpoint_where_kafka_would_take_none(
    case: str, offset: str, sentence: str, tmp_path: Path
) -> None:
    node = "1" if case == "combined" else "0"
    with pytest.raises(KraftlogError, match=sentence):
        run("checkpoint", Replica(case, node).folder, "--at", offset, "--out", tmp_path)
    assert list(tmp_path.iterdir()) == []
