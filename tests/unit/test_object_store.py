"""A lake on an object store: the lease and its fence over a real S3 protocol server, which lets
several clients at once create what only one may.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraftlog.errors import LakeError
from kraftlog.log import storage
from kraftlog.log.directory import find_replicas
from kraftlog.log.names import LOG_FOLDER, segment_name
from kraftlog.tables.lake import Lake
from kraftlog.tables.lease import lease_of
from kraftlog.tables.parquet import lake_filesystem
from kraftlog.tables.place import require_place, state_of
from kraftlog.tables.spec import decoded_tables
from tests.s3_server import Store, s3_bucket

FILES = decoded_tables()["files"]
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_bucket() as one:
        yield one


@pytest.fixture(scope="module")
def bucket(store: Store) -> str:
    """The URI of a bucket; the environment says where it is."""
    return store.bucket


def hold(root: str, lease: float = 60, wait: float = 0) -> Any:
    return lease_of(root, lease, wait, lambda _: None)


def hold_for_ever(root: str, ready: Any) -> None:
    with hold(root, lease=2):
        ready.set()
        time.sleep(3600)


def test_one_writer_holds_the_lake(bucket: str) -> None:
    root = f"{bucket}/one"
    require_place(root)
    with hold(root), pytest.raises(LakeError, match="at work on this lake"), hold(root):
        pass
    with hold(root) as lease:
        assert lease.token == 2
    assert state_of(root).owner is None


def test_a_killed_owner_is_taken_over_and_a_stalled_one_fenced(bucket: str) -> None:
    root, ready = f"{bucket}/killed", SPAWN.Event()
    first = SPAWN.Process(target=hold_for_ever, args=(root, ready))
    first.start()
    assert ready.wait(60)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    stalled = Lake(root, token=1)
    stalled.commit(FILES, [], 1)
    with hold(root, lease=2, wait=60) as lease:
        assert lease.is_taken_over
        Lake(root, lease.token).fence([FILES])
        with pytest.raises(LakeError, match="taken the lake over"):
            stalled.commit(FILES, [], 2)
        rows = pa.Table.from_pylist([{"path": "/a"}], schema=FILES.schema)
        Lake(root, lease.token).write(FILES, rows, 2)
    assert Lake(root).rows("files").column("path").to_pylist() == ["/a"]


def take_turns(root: str, turns: int) -> None:
    filesystem, folder = lake_filesystem(root)
    counter = f"{folder}/count"
    for _ in range(turns):
        with hold(root, wait=120):
            known = 0
            if filesystem.get_file_info(counter).is_file:
                with filesystem.open_input_stream(counter) as stream:
                    known = int(stream.read())
            with filesystem.open_output_stream(counter) as stream:
                stream.write(str(known + 1).encode())


def test_writers_that_begin_at_once_take_turns(bucket: str) -> None:
    root = f"{bucket}/turns"
    writers = [SPAWN.Process(target=take_turns, args=(root, 4)) for _ in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [one.exitcode for one in writers] == [0] * 3
    filesystem, folder = lake_filesystem(root)
    with filesystem.open_input_stream(f"{folder}/count") as stream:
        assert stream.read() == b"12"


def test_a_folder_of_other_things_is_refused(bucket: str) -> None:
    filesystem, folder = lake_filesystem(f"{bucket}/other")
    with filesystem.open_output_stream(f"{folder}/letter.txt") as stream:
        stream.write(b"x")
    with pytest.raises(LakeError, match=r"holds other things \(letter.txt\)"):
        require_place(f"{bucket}/other")


def seen_below(root: str) -> list[tuple[str, list[tuple[str, str, int]]]]:
    """The replicas below a root, each with its files, as paths below the root."""
    top = len(root.rstrip("/"))
    return [
        (one.label, [(file.path[top:], file.kind, file.size_bytes) for file in one.files])
        for one in find_replicas([root])
    ]


@pytest.mark.parametrize("below", ["", "/", "/1", f"/1/{LOG_FOLDER}", "/deep"])
def test_replicas_are_found_as_on_a_disk_by_one_listing(
    store: Store, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        f"1/{LOG_FOLDER}/{segment_name(0)}": b"1234",
        f"1/{LOG_FOLDER}/quorum-state": b"{}",
        "1/meta.properties": b"node.id=1",
        "1/orders-0/00000000000000000000.log": b"others' data",
        f"1.old/{LOG_FOLDER}/{segment_name(0)}": b"12",
        "deep/a/b/meta.properties": b"node.id=2",
        f"deep/a/b/c/{LOG_FOLDER}/{segment_name(7)}": b"1",
        "lost/meta.properties": b"node.id=3",
        "letter.txt": b"x",
    }
    for name, held in names.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(held)
    root = f"{store.bucket}/found{sum(map(ord, below))}"
    store.put(tmp_path, root)
    listings = []
    below_remote = storage._below_remote

    def counted(path: str, *, is_deep: bool = True) -> dict[str, list[storage.FolderEntry]]:
        listings.append(path)
        return below_remote(path, is_deep=is_deep)

    monkeypatch.setattr(storage, "_below_remote", counted)
    assert seen_below(f"{root}{below}") == seen_below(f"{tmp_path}{below}")
    # What lies beside the log, or above it, is above a root that is a log or a node.
    above = {"/1": 0, f"/1/{LOG_FOLDER}": 1}.get(below, 0)
    assert len(listings) == 1 + above
