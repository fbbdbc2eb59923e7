"""Input roots → replicas: which folders are found, what they are called, what files they hold."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.errors import InputError
from kraftlog.log import names
from kraftlog.log.directory import (
    NO_SEGMENT,
    UNLISTED,
    UNSEEN,
    Replica,
    find_replicas,
    record_files,
)
from kraftlog.source.files import file_rows
from kraftlog.state.encode import encode_batch

SEGMENT = names.segment_name(0)


def make_log(holder: Path, *files: str) -> Path:
    """A metadata log's folder below `holder`, with some files."""
    folder = holder / names.LOG_FOLDER
    folder.mkdir(parents=True)
    for name in files or (SEGMENT,):
        (folder / name).write_bytes(b"1234")
    return folder


def labels(*roots: Path | str) -> list[str]:
    return [one.label for one in find_replicas([str(root) for root in roots])]


def kinds(replica: Replica) -> set[str]:
    return {file.kind for file in replica.files}


def test_labels_are_paths_below_the_root(tmp_path: Path) -> None:
    for holder in ("node-2/data", "node-1", "node-10"):
        make_log(tmp_path / holder)
    assert labels(tmp_path) == ["node-1", "node-10", "node-2/data"]
    assert labels(f"{tmp_path}/") == labels(f"file://{tmp_path}") == labels(tmp_path)


@pytest.mark.parametrize("command", [["replicas"], ["audit"], ["plan", "restart"]])
def test_an_option_that_is_said_again_adds_its_roots(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("node-1", "node-2", "node-3"):
        make_log(tmp_path / name)
    roots = [str(tmp_path / name) for name in ("node-1", "node-2", "node-3")]
    main([*command, "--input", *roots[:2], "--input", roots[2], "--format", "json"])
    told = capsys.readouterr().out
    assert all(f'"{name}"' in told for name in ("node-1", "node-2", "node-3"))


def test_a_root_that_is_a_node_or_the_log_itself(tmp_path: Path) -> None:
    folder = make_log(tmp_path / "node-1")
    assert labels(tmp_path / "node-1") == ["node-1"]
    assert labels(folder) == ["node-1"]


def test_one_folder_named_twice_is_one_replica(tmp_path: Path) -> None:
    make_log(tmp_path / "node-1")
    assert labels(tmp_path, tmp_path) == ["node-1"]
    assert len(labels(tmp_path, tmp_path / "node-1")) == 1


def test_two_roots_with_the_same_labels(tmp_path: Path) -> None:
    for root in ("monday", "tuesday"):
        make_log(tmp_path / root / "node-1")
    make_log(tmp_path / "tuesday" / "node-2")
    found = labels(tmp_path / "monday", tmp_path / "tuesday")
    assert found == ["monday/node-1", "tuesday/node-1", "node-2"]


def test_no_label_is_the_name_of_the_history_that_all_share(tmp_path: Path) -> None:
    for holder in ("main", "node-1"):
        make_log(tmp_path / "copies" / holder)
    assert labels(tmp_path / "copies") == ["copies/main", "node-1"]
    assert labels(tmp_path / "copies" / "main") == ["main/main"]
    assert labels(tmp_path) == ["copies/main", "copies/node-1"]


def test_two_roots_with_the_same_name_and_labels(tmp_path: Path) -> None:
    for site in ("a", "b"):
        make_log(tmp_path / site / "copy" / "node-1")
    found = labels(tmp_path / "a/copy", tmp_path / "b/copy")
    assert len(set(found)) == 2
    replicas = find_replicas([str(tmp_path / "a/copy"), str(tmp_path / "b/copy")])
    assert all(file.replica == one.label for one in replicas for file in one.files)


def test_the_order_of_roots_decides_nothing(tmp_path: Path) -> None:
    for holder in ("a/copy/3", "a/copy/1", "a-b/2", "b/copy/1", "b/copy/12"):
        make_log(tmp_path / holder)
    roots = [str(tmp_path / one) for one in ("a/copy", "a/copy/3", "a-b", "b/copy")]
    found = find_replicas(roots)
    assert find_replicas(roots[::-1]) == found
    folders = [one.folder for one in find_replicas([str(tmp_path)])]
    assert [one.folder for one in found] == folders, "that of one root that holds all"


def test_names_of_all_the_world(tmp_path: Path) -> None:
    holders = ["knoten 1", "узел", "節點", "a'b\"c", "per%20cent", "new\nline", "tab\t", "-x", "#1"]
    for holder in holders:
        make_log(tmp_path / holder)
    assert sorted(labels(tmp_path)) == sorted(holders)


def test_symbolic_links_and_loops(tmp_path: Path) -> None:
    folder = make_log(tmp_path / "real" / "node-1")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "linked").symlink_to(folder.parent)
    (tmp_path / "root" / "up").symlink_to(tmp_path / "root")
    (folder.parent / "back").symlink_to(tmp_path)
    (tmp_path / "root" / "nowhere").symlink_to(tmp_path / "absent")
    (tmp_path / "named").symlink_to(tmp_path / "real")
    assert len(labels(tmp_path)) == 1
    assert labels(tmp_path / "named") == ["node-1"]


def test_links_that_lead_out_of_a_root_are_told_and_left_out(tmp_path: Path) -> None:
    outside = make_log(tmp_path / "other" / "node-9", SEGMENT)
    folder = make_log(tmp_path / "root" / "node-1", SEGMENT)
    (tmp_path / "root" / "node-2").symlink_to(outside.parent)
    (folder / names.segment_name(8)).symlink_to(outside / SEGMENT)
    (folder / "quorum-state").symlink_to("/etc/hostname")
    (found,) = find_replicas([str(tmp_path / "root")])
    assert found.label == "node-1"
    assert left_out(found) == {"node-2": "it is a link that leads out of the input"}
    problems = {file.name: file.problem for file in found.files}
    assert problems.pop(SEGMENT) is None
    assert set(problems.values()) == {"it is a link that leads out of the input"}


def test_a_folder_that_cannot_be_listed_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a log that cannot be read, also where nobody knows whose folder it is: unless it lies
    beside a log that is at hand, or is a file system's own.
    """
    make_log(tmp_path / "node-1")
    make_log(tmp_path / "node-2", SEGMENT)
    shut = [make_log(tmp_path / "node-3"), tmp_path / "\x1b[31mshut"]
    shut += [tmp_path / "node-1" / "topic-0", tmp_path / "lost+found"]
    for one in shut:
        one.mkdir(exist_ok=True)
        one.chmod(0)
    as_nobody(monkeypatch, shut)
    found = {one.label: one for one in find_replicas([str(tmp_path)])}
    assert set(found) == {"node-1", "node-2", "node-3", shut[1].name}
    assert [one.problem for one in found["node-2"].files] == [None]
    for label, why in (("node-3", UNLISTED), (shut[1].name, UNSEEN)):
        (log,) = found[label].files
        assert log.kind == names.LOG
        assert log.problem == f"{why}: Permission denied"
        assert Path(log.path).name == names.LOG_FOLDER, "a file is named that nobody has seen"
    told = capsys.readouterr().err
    assert "shut: it cannot be listed" in told
    assert "\x1b" not in told
    with pytest.raises(InputError, match="cannot be listed"):
        find_replicas([str(shut[1])])


def as_nobody(monkeypatch: pytest.MonkeyPatch, shut: list[Path]) -> None:
    """Root may list everything: refuse what the modes forbid to all others."""
    scandir = os.scandir

    def scan(path: str) -> Any:
        if Path(path) in shut:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    if os.geteuid() == 0:
        monkeypatch.setattr(os, "scandir", scan)


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    folder = make_log(tmp_path / "node-1", SEGMENT)
    bad = tmp_path / os.fsdecode(b"\xff\xfe")
    bad.mkdir()
    (folder / os.fsdecode(b"\xe9.log")).write_bytes(b"")
    (found,) = find_replicas([str(tmp_path)])
    assert left_out(found) == {r"\xff\xfe": "its name is not UTF-8"}
    problems = {file.name: file.problem for file in found.files if file.kind != names.LEFT_OUT}
    assert problems == {SEGMENT: None, r"\xe9.log": "its name is not UTF-8"}
    with pytest.raises(InputError, match="not UTF-8"):
        find_replicas([str(bad)])


def test_times_beyond_all_calendars(tmp_path: Path) -> None:
    folder = make_log(tmp_path / "node-1", SEGMENT)
    for seconds in (1 << 40, 300_000_000_000, -(1 << 40)):
        os.utime(folder / SEGMENT, (seconds, seconds))
        rows, _ = file_rows(find_replicas([str(tmp_path)]), None)
        assert rows.num_rows == 1


def test_a_log_folder_with_others_beside_it(tmp_path: Path) -> None:
    """metadata.log.dir and log.dirs may be one: topic partitions are not looked into."""
    node = tmp_path / "node-1"
    make_log(node, SEGMENT, "quorum-state", names.checkpoint_name(5, 1))
    for name in ("meta.properties", "bootstrap.checkpoint", "unrelated.txt"):
        (node / name).write_text("x=1\n")
    (node / "topic-0").mkdir()
    (node / "topic-0" / SEGMENT).write_bytes(b"")
    (found,) = find_replicas([str(node)])
    assert kinds(found) == {
        names.LOG,
        names.CHECKPOINT,
        names.QUORUM_STATE,
        names.META_PROPERTIES,
        names.BOOTSTRAP,
    }
    assert {file.kind for file in record_files([found])} == {
        names.LOG,
        names.CHECKPOINT,
        names.BOOTSTRAP,
    }


def test_a_split_metadata_log_dir(tmp_path: Path) -> None:
    """metadata.log.dir apart from log.dirs: meta.properties may lie one level up."""
    make_log(tmp_path / "node-1" / "metadata")
    (tmp_path / "node-1" / "meta.properties").write_text("node.id=1\n")
    (found,) = find_replicas([str(tmp_path / "node-1")])
    assert names.META_PROPERTIES in kinds(found)


@pytest.mark.parametrize("name", [SEGMENT, "renamed.bin", names.checkpoint_name(5, 1)])
def test_a_single_file(tmp_path: Path, name: str) -> None:
    path = make_log(tmp_path / "node-1", name) / name
    if name == "renamed.bin":
        path.write_bytes(b"damaged" + encode_batch([], 0, 1, 1))
    (found,) = find_replicas([str(path)])
    assert (found.label, [file.name for file in found.files]) == ("node-1", [name])
    assert [file.path for file in record_files([found])] == [str(path)]


@pytest.mark.parametrize("name", ["some.txt", "server.log", "quorum-state", "meta.properties"])
@pytest.mark.parametrize("content", [b"", b"a text\n" * 100, bytes(range(256)) * 40])
def test_a_file_that_is_no_metadata_log(
    tmp_path: Path, name: str, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for words in (["audit", "--input"], ["records"], ["batches"], ["state"]):
        assert main([*words, str(path)]) == 2
        captured = capsys.readouterr()
        assert f"{name} is not a metadata log" in captured.err
        assert captured.err.count("\n") == 1
        assert not captured.out


@pytest.mark.parametrize("command", ["records", "state"])
@pytest.mark.parametrize(
    ("given", "near"),
    [("TOPIC", "TOPIC_RECORD"), ("partition_record", "PARTITION_RECORD"), ("xx", "CONFIG_RECORD")],
)
def test_a_type_that_no_record_has(
    command: str, given: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "nowhere", "--type", given]) == 2
    assert near in capsys.readouterr().err


def test_files_say_what_they_are(tmp_path: Path) -> None:
    folder = make_log(tmp_path / "node-1", SEGMENT)
    (folder / names.segment_name(7)).mkdir()
    (folder / names.segment_name(8)).symlink_to(tmp_path / "absent")
    os.mkfifo(folder / names.segment_name(9))
    (found,) = find_replicas([str(tmp_path)])
    problems = {file.parsed.base_offset: file.problem for file in found.files}
    assert problems.pop(0) is None
    assert problems.keys() == {7, 8, 9}
    assert all(problems.values())
    first = found.files[0]
    assert (first.size_bytes, first.kind) == (4, names.LOG)
    assert first.modified_ns == (folder / SEGMENT).stat().st_mtime_ns


def test_a_folder_takes_the_place_of_no_segment(tmp_path: Path) -> None:
    folder = make_log(tmp_path / "node-1", SEGMENT)
    (folder / f"{SEGMENT}.swap").mkdir()
    (found,) = find_replicas([str(tmp_path)])
    assert [file.name for file in found.files if file.kind == names.LOG] == [SEGMENT]


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "--input", ""],
        ["records", ""],
        ["state", ""],
        ["changes", "--lake", ""],
        ["explain", "topic", "x", "--lake", ""],
        ["plan", "replicas", "--lake", ""],
        ["plan", "replicas", "--staleness", "--lake", ""],
        ["sql", "SELECT 1", "--lake", ""],
    ],
)
def test_a_variable_without_a_value_is_not_the_whole_disk(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said == "kraftlog: an empty path was given: name a folder or a file\n"


def test_roots_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        find_replicas([str(tmp_path / "absent")])
    with pytest.raises(
        InputError, match=r"no __cluster_metadata-0 folder lies below .*, or name another folder$"
    ):
        find_replicas([str(tmp_path)])
    make_log(tmp_path / "node-1")
    with pytest.raises(InputError, match="absent"):
        find_replicas([str(tmp_path), str(tmp_path / "absent")])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither a folder nor a regular file"):
        find_replicas([str(tmp_path / "pipe")])


def test_a_log_folder_without_files_is_a_replica(tmp_path: Path) -> None:
    (tmp_path / "node-1" / names.LOG_FOLDER).mkdir(parents=True)
    (found,) = find_replicas([str(tmp_path)])
    assert (found.label, found.files) == ("node-1", ())


@pytest.mark.parametrize(
    "name", ["q.tar", "q.tgz", "q.TAR.GZ", "q.zip", f"{SEGMENT}.gz", "q.tar.zst"]
)
def test_a_packed_file_is_no_log(name: str, tmp_path: Path) -> None:
    """An archive of a log holds whole batches, between bytes of its own."""
    batch = encode_batch([], 0, 1, 1)
    (tmp_path / name).write_bytes(bytes(512) + batch + bytes(512))
    with pytest.raises(InputError, match="is packed: unpack it first"):
        find_replicas([str(tmp_path / name)])


def left_out(replica: Replica) -> dict[str, str | None]:
    """Names that nobody looked into, and why."""
    return {one.name: one.problem for one in replica.files if one.kind == names.LEFT_OUT}


def test_what_is_packed_is_told_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Archives of nodes, and compressed files of a log; not the compressed logs of a server. It is
    a file of the node in whose folder it lies, or of the first one.
    """
    (tmp_path / "3.tar.gz").write_bytes(b"1234")
    (tmp_path / "server.log.gz").write_bytes(b"1234")
    with pytest.raises(InputError, match="no __cluster_metadata-0 folder lies below it"):
        find_replicas([str(tmp_path)])
    assert f"{tmp_path}/3.tar.gz: it is packed, and is left out" in capsys.readouterr().err
    make_log(tmp_path / "1", SEGMENT)
    make_log(tmp_path / "2", SEGMENT, f"{SEGMENT}.gz")
    (tmp_path / "2" / "old" / "older").mkdir(parents=True)
    (tmp_path / "2" / "old" / "older" / "2.zip").write_bytes(b"1234")
    first, second = find_replicas([str(tmp_path)])
    assert left_out(first) == {"3.tar.gz": "it is packed"}
    assert left_out(second) == dict.fromkeys((f"{SEGMENT}.gz", "2.zip"), "it is packed")
    assert {one.replica for one in first.files} == {"1"}
    assert capsys.readouterr().err == "", "every answer has a row for them"
    for words in (["records", str(tmp_path)], ["batches", str(tmp_path)]):
        main([*words, "--format", "json"])
        rows = [json.loads(one) for one in capsys.readouterr().out.splitlines()]
        assert ("unreadable", "it is packed") in {(row["fault"], row["detail"]) for row in rows}
    main(["state", str(tmp_path / "2")])
    assert "2.zip: it is packed, and is left out" in capsys.readouterr().err


def test_a_node_without_its_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its meta.properties: Kafka 4.4 writes no bootstrap.checkpoint beside it."""
    for node in "12":
        make_log(tmp_path / node)
        text = f"node.id={node}\ncluster.id=c\nversion=1\n"
        (tmp_path / node / "meta.properties").write_text(text)
    (tmp_path / "1" / "more").mkdir()
    shutil.copy(tmp_path / "1" / "meta.properties", tmp_path / "1" / "more")
    assert labels(tmp_path) == ["1", "2"]
    shutil.rmtree(tmp_path / "2" / names.LOG_FOLDER)
    assert labels(tmp_path) == ["1", "2"]
    lost = find_replicas([str(tmp_path)])[1]
    assert lost.folder == f"{tmp_path}/2/{names.LOG_FOLDER}"
    assert [one.problem for one in lost.files] == [NO_SEGMENT, None]
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="no __cluster_metadata-0 folder lies below it"):
        find_replicas([str(tmp_path / "2")])
    assert f"{tmp_path}/2: {NO_SEGMENT}" in capsys.readouterr().err


@pytest.mark.parametrize(("node", "lacks"), [("1", False), ("2", True), ("password", True)])
def test_a_disk_for_data_beside_one_with_the_log_lacks_nothing(
    node: str, *, lacks: bool, tmp_path: Path
) -> None:
    """A node formats every log directory, and puts its metadata log into one of them: of two that
    hold none it lacks one log.
    """
    make_log(tmp_path / "a" / "log")
    for folder, number in (("a/log", "1"), ("b/disk", node), ("c/disk", "2")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        text = f"node.id={number}\ncluster.id=c\nversion=1\n"
        (tmp_path / folder / "meta.properties").write_text(text)
    found = ["b/disk"] if lacks else []
    found += [] if node == "2" else ["c/disk"]
    assert labels(tmp_path) == ["a/log", *found]


def test_a_split_metadata_directory_that_cannot_be_listed_is_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(tmp_path / "1")
    shut = make_log(tmp_path / "2" / "metadata").parent
    (tmp_path / "2" / "meta.properties").write_text("node.id=2\ncluster.id=c\n")
    shut.chmod(0)
    as_nobody(monkeypatch, [shut])
    (lost,) = [one for one in find_replicas([str(tmp_path)]) if one.label != "1"]
    assert (lost.label, lost.files[0].problem) == ("2/metadata", f"{UNSEEN}: Permission denied")
    assert names.META_PROPERTIES in kinds(lost)


def test_a_log_s_folder_of_another_name_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files may have been copied without it, or it was renamed; a topic's partition is no such
    folder.
    """
    make_log(tmp_path / "1")
    flat, bak = tmp_path / "2", tmp_path / "3" / f"{names.LOG_FOLDER}.bak"
    make_log(tmp_path / "x", SEGMENT, "quorum-state").rename(flat)
    make_log(tmp_path / "y", SEGMENT, names.checkpoint_name(5, 1)).rename(bak.parent)
    make_log(tmp_path / "z", SEGMENT, "leader-epoch-checkpoint").rename(tmp_path / "topic-0")
    bak.parent.rename(tmp_path / "bak")
    bak.parent.mkdir()
    (tmp_path / "bak").rename(bak)
    for node in (flat, bak.parent):
        (node / "meta.properties").write_text("node.id=2\ncluster.id=c\nversion=1\n")
    first, *more = find_replicas([str(tmp_path)])
    why = f"it holds a metadata log and is not called {names.LOG_FOLDER}"
    assert left_out(first) == {"2": why, bak.name: why}
    assert [one.label for one in more] == ["3"], "of a flat copy nobody says that its log is gone"
    with pytest.raises(InputError, match="no __cluster_metadata-0 folder lies below it"):
        find_replicas([str(flat)])
    assert f"{flat}: {why}, and is left out" in capsys.readouterr().err


def test_a_copy_that_was_copied_into_another_one(tmp_path: Path) -> None:
    """`cp -R` makes the folder anew in the one that is there, and `rsync` in the one that it makes."""
    outer = make_log(tmp_path / "1", SEGMENT)
    make_log(outer, SEGMENT)
    (found,) = find_replicas([str(tmp_path)])
    assert found.folder == str(outer)
    assert left_out(found) == {names.LOG_FOLDER: "it lies in a folder of the same name"}
    (outer / SEGMENT).unlink()
    (tmp_path / "1" / "meta.properties").write_text("node.id=1\n")
    for root in (tmp_path, outer.parent, outer):
        (found,) = find_replicas([str(root)])
        assert (found.label, found.folder) == ("1", f"{outer}/{names.LOG_FOLDER}")
        assert kinds(found) == {names.LOG, names.META_PROPERTIES}
