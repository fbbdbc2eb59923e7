"""One writer at a time: who holds a lake, who waits, who takes over, and that a writer which was
taken for dead writes nothing any more. On a local disk; `test_object_store` has the same on S3.
"""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kraftlog.errors import LakeError, StoreError, UnwritableError
from kraftlog.tables.lake import Lake
from kraftlog.tables.lease import Lease, lease_of
from kraftlog.tables.register import Register, cut_broken_end
from kraftlog.tables.spec import TableSpec, decoded_tables

Row = dict[str, Any]
FILES = decoded_tables()["files"]
BATCHES = decoded_tables()["batches"]
ROWS = pa.Table.from_pylist([{"path": "/a"}], schema=FILES.schema)
FRESH = multiprocessing.get_context("forkserver")
"""Other processes, which share nothing with this one; what they import, one does for all of them."""
FRESH.set_forkserver_preload(["tests.conftest", __name__])


def hold(root: str, *, lease: float = 60, wait: float = 0, told: list[str] | None = None) -> Any:
    sentences = [] if told is None else told
    return lease_of(root, lease, wait, sentences.append)


def write(root: str, lease: Lease, number: int, spec: TableSpec = FILES) -> None:
    Lake(root, lease.token).commit(spec, [], number)


def test_an_owner_is_known_while_it_writes_and_nobody_afterwards(tmp_path: Path) -> None:
    root = str(tmp_path)
    with hold(root):
        known = Register(root).read()
        assert known is not None
        assert known.owner is not None
        assert known.owner.process == os.getpid()
    known = Register(root).read()
    assert known is not None
    assert known.owner is None


def test_tokens_count_the_owners(tmp_path: Path) -> None:
    tokens = []
    for _ in range(3):
        with hold(str(tmp_path)) as lease:
            tokens.append(lease.token)
            assert not lease.is_taken_over
    assert tokens == [1, 2, 3]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lease_may_last_for_longer_than_a_thread_can_wait(tmp_path: Path) -> None:
    with lease_of(str(tmp_path), (1 << 63) - 1, 0, lambda _: None):
        time.sleep(0.2)


def test_a_failure_lets_others_in(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(str(tmp_path)):
        raise ZeroDivisionError
    with hold(str(tmp_path)) as lease:
        assert not lease.is_taken_over


def test_who_may_not_wait_is_told_who_is_at_work(tmp_path: Path) -> None:
    root = str(tmp_path)
    with hold(root), pytest.raises(LakeError) as caught, hold(root):
        pass
    assert f"process {os.getpid()} on " in str(caught.value)
    assert "run again when it has ended" in str(caught.value)


def hold_for(root: str, seconds: float, ready: Any) -> None:
    with hold(root, wait=60) as lease:
        ready.set()
        time.sleep(seconds)
        write(root, lease, lease.token)


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    root, ready, told = str(tmp_path), FRESH.Event(), []
    first = FRESH.Process(target=hold_for, args=(root, 1.0, ready))
    first.start()
    assert ready.wait(60)
    with hold(root, wait=60, told=told) as lease:
        assert not lease.is_taken_over
        assert Lake(root).run_number("files") == 1, "the first one has written before"
    first.join()
    assert len(told) == 1
    assert f"process {first.pid} on " in told[0]


def hold_for_ever(root: str, ready: Any) -> None:
    with hold(root, lease=1):
        ready.set()
        time.sleep(3600)


def test_a_killed_owner_is_taken_over(tmp_path: Path) -> None:
    root, ready = str(tmp_path), FRESH.Event()
    first = FRESH.Process(target=hold_for_ever, args=(root, ready))
    first.start()
    assert ready.wait(60)
    with pytest.raises(LakeError, match="at work"), hold(root, lease=30, wait=1):
        pass
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    with hold(root, lease=1, wait=60) as lease:
        assert lease.is_taken_over
        assert lease.token == 2


def test_an_owner_that_was_silent_for_long_is_dead_at_once(tmp_path: Path) -> None:
    root = str(tmp_path)
    with hold(root) as lease:
        assert Register(root).advance(replace(lease.state, version=1, renewed=0.0))
        with hold(root, wait=0) as second:
            assert second.is_taken_over
            assert second.token == 2
        lease.lost = True  # what its next word would find


def test_a_stalled_owner_cannot_commit_after_it_was_taken_over(tmp_path: Path) -> None:
    """Neither to tables that its successor has written, nor to others, nor to new ones."""
    root = str(tmp_path)
    with hold(root) as lease:
        write(root, lease, 1)
        opened = Lake(root, lease.token).open("files")
    stalled = Lake(root, lease.token)
    with hold(root) as second:
        successor = Lake(root, second.token)
        successor.fence([FILES, BATCHES])
        for spec in (FILES, BATCHES):
            with pytest.raises(LakeError, match="another one has taken the lake over"):
                stalled.commit(spec, [], 2)
        with pytest.raises(LakeError, match="taken the lake over"), stalled._alone("files", opened):
            # It had opened the table before it was taken over, and goes on from there.
            opened.create_write_transaction(
                [],
                mode="append",
                schema=FILES.schema,
                commit_properties=stalled._properties(2),
            )
        with pytest.raises(LakeError, match="taken the lake over"):
            stalled.recover([FILES], finished_run=0)
        assert successor.run_number("files") == 1
        write(root, second, 2)
        assert successor.run_number("files") == 2


def test_an_owner_learns_that_it_was_taken_over(tmp_path: Path) -> None:
    with hold(str(tmp_path)) as lease:
        assert lease.register.advance(replace(lease.state, version=1))  # somebody else's word
        with pytest.raises(LakeError, match="taken the lake over"):
            lease.say()
        with pytest.raises(LakeError, match="taken the lake over"):
            lease.check()


@pytest.mark.parametrize("is_known", [True, False])
def test_whatever_a_stalled_owner_misses_it_was_taken_over(is_known: bool, tmp_path: Path) -> None:
    """Its successor has rewritten the tables that it reads, and removed their files; whether it has
    heard so, or asks only now.
    """
    missed = LakeError("a file of this table cannot be read")

    def stall(error: BaseException) -> None:
        with hold(str(tmp_path / type(error).__name__)) as one:
            assert one.register.advance(replace(one.state, version=one.state.version + 1))
            one.lost = is_known
            raise error

    with pytest.raises(LakeError, match="taken the lake over") as told:
        stall(missed)
    assert told.value.__cause__ is missed
    with pytest.raises(KeyboardInterrupt):
        stall(KeyboardInterrupt())


def take_turns(root: str, turns: int) -> None:
    """Count in a file, with a gap between reading and writing that only a lease closes."""
    counter = Path(root) / "count"
    for _ in range(turns):
        with hold(root, wait=120):
            known = int(counter.read_text()) if counter.exists() else 0
            time.sleep(0.002)
            counter.write_text(str(known + 1))


def test_writers_that_begin_at_once_take_turns(tmp_path: Path) -> None:
    writers = [FRESH.Process(target=take_turns, args=(str(tmp_path), 5)) for _ in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [one.exitcode for one in writers] == [0] * 4
    assert (tmp_path / "count").read_text() == "20"


def test_a_damaged_register_is_one_sentence(tmp_path: Path) -> None:
    with hold(str(tmp_path)):
        pass
    for one in (tmp_path / "_lake" / "_delta_log").glob("*.json"):
        one.write_text("{")
    with pytest.raises(LakeError, match="the register of the lake is damaged"), hold(str(tmp_path)):
        pass


def newest_entry(root: Path, table: str = "_lake") -> Path:
    return max((root / table / "_delta_log").glob("*.json"))


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_register_whose_end_a_power_cut_has_torn_goes_on(
    left: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of nothing, of half of the entry, of several entries."""
    told: list[str] = []
    for _ in range(3):
        with hold(str(tmp_path)) as lease:
            lease.say(cluster_id="theirs")
    entries = sorted((tmp_path / "_lake" / "_delta_log").glob("*.json"))
    for one in entries[-1 - left :]:
        os.truncate(one, 0 if left == 0 else one.stat().st_size // 2)
    with hold(str(tmp_path), lease=0.1, wait=60, told=told) as lease:
        assert lease.state.cluster_id == "theirs"
        assert lease.state.version == int(newest_entry(tmp_path).stem)
    assert told[0] == f"{tmp_path}/_lake: its newest entry was broken, and the one before it counts"


def test_only_the_end_of_a_log_is_cut(tmp_path: Path) -> None:
    """Never the only commit, nor a broken one in the middle; what is whole stays as it is."""
    for _ in range(2):
        with hold(str(tmp_path)):
            pass
    log = tmp_path / "_lake" / "_delta_log"
    entries = sorted(log.glob("*.json"))
    assert not cut_broken_end(str(log.parent)), "all are whole"
    entries[1].write_text("")
    assert not cut_broken_end(str(log.parent)), "those that follow are whole"
    for one in entries:
        one.write_bytes(bytes(100))
    assert not cut_broken_end(str(log.parent)), "nothing would be left"
    assert sorted(log.glob("*.json")) == entries
    assert not cut_broken_end(str(tmp_path / "none"))


def test_what_may_not_be_read_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that another user has written for himself is whole: it was deleted."""
    for _ in range(2):
        with hold(str(tmp_path)):
            pass
    log = tmp_path / "_lake" / "_delta_log"
    entries = sorted(log.glob("*.json"))

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(StoreError, match=r"json: it cannot be read \(Permission denied\)"):
        cut_broken_end(str(log.parent))
    assert sorted(log.glob("*.json")) == entries


FOREIGN: dict[str, Callable[[DeltaTable], object]] = {
    "properties": lambda one: one.alter.set_table_properties({"delta.checkpointInterval": "10"}),
    "rows": lambda one: write_deltalake(one, pa.table({"note": ["mine"]}), mode="append"),
    "an older version": lambda one: one.restore(0),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_other_clients_commit_to_the_register_says_nothing(what: str, tmp_path: Path) -> None:
    """A job that goes through all tables of a warehouse takes the register for one: before a run,
    while it is at work, and twice in a row.
    """
    root = str(tmp_path)

    def meddle() -> None:
        FOREIGN[what](DeltaTable(f"{root}/_lake"))

    with hold(root) as lease:
        lease.say(cluster_id="theirs")
        stale = replace(lease.state, version=lease.state.version + 1)
        meddle()
        lease.say()
        assert not lease.register.advance(stale), "who has not heard of that does not go on"
    meddle()
    meddle()
    known = Register(root).read()
    assert known is not None
    assert (known.owner, known.cluster_id, known.token) == (None, "theirs", 1)
    with hold(root) as lease, pytest.raises(LakeError, match="at work"), hold(root):
        pass
    assert (lease.state.cluster_id, lease.token) == ("theirs", 2)


def test_a_register_of_another_s_format_is_read_and_not_written(tmp_path: Path) -> None:
    """One sentence, and no waiting for what never comes."""
    with hold(str(tmp_path)):
        pass
    entry = newest_entry(tmp_path)
    protocol = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["inCommitTimestamp"],
    }
    actions = {"commitInfo": {"operation": "SET TBLPROPERTIES"}, "protocol": protocol}
    lines = (json.dumps({name: one}) for name, one in actions.items())
    entry.with_name(f"{int(entry.stem) + 1:020d}.json").write_text("\n".join(lines))
    with pytest.raises(UnwritableError, match="InCommitTimestamp"), hold(str(tmp_path)):
        pass
    known = Register(str(tmp_path)).read()
    assert known is not None
    assert known.owner is None


TAMPERED: dict[str, Callable[[Row], None]] = {
    "since": lambda state: state["owner"].update(since=1e300),
    "heard": lambda state: state.update(renewed="yesterday"),
    "never": lambda state: state.update(renewed=float("nan")),
    "token": lambda state: state.update(token="many"),
    "host": lambda state: state.update(owner=["a", "b"]),
    "runs": lambda state: state.update(published=[{"run": "x", "versions": {}, "files": {}}]),
    "files": lambda state: state.update(
        published=[{"run": 1, "versions": {}, "files": {"a": "b"}}]
    ),
    "list": lambda state: state.update(published=7),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_register_that_somebody_has_changed_is_one_sentence(what: str, tmp_path: Path) -> None:
    with hold(str(tmp_path)) as lease:
        lease.say()
        entry = newest_entry(tmp_path)
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        (commit,) = (one["commitInfo"] for one in lines if "commitInfo" in one)
        state = json.loads(commit["kraftlog"])
        TAMPERED[what](state)
        commit["kraftlog"] = json.dumps(state)
        entry.write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(LakeError, match="the register of the lake is damaged"):
            Register(str(tmp_path)).read()
        lease.lost = True
