"""Which folders beside a metadata log are those of topics, and of which ones."""

from pathlib import Path

import pytest

from kraftlog.quorum.evidence import PartitionFolder
from kraftlog.quorum.side_evidence import partition_folders
from tests.unit.audit_logs import FOLDER, uuid_text

ID = uuid_text(7)
LONG = "0" * 31 + "1"


@pytest.mark.parametrize("inside", ["", "data"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a-0", ("a", 0, None)),
        ("a-b.c-12", ("a-b.c", 12, None)),
        (f"a-0.{LONG}-delete", ("a", 0, "delete")),
        (f"a-3.{LONG}-stray", ("a", 3, "stray")),
        (f"a-3.{LONG}-future", ("a", 3, "future")),
        (f"a-3.{LONG}-other", None),
        ("a", None),
        ("-0", None),
        (FOLDER, None),
    ],
)
def test_names(
    tmp_path: Path, inside: str, name: str, told: tuple[str, int, str | None] | None
) -> None:
    folder = tmp_path / inside / name
    folder.mkdir(parents=True)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}\n")
    expected = () if told is None else (PartitionFolder(str(folder), name, *told, ID),)
    assert partition_folders(str(tmp_path / FOLDER)) == expected


def test_without_a_topic_id_a_folder_counts_only_by_its_fate(tmp_path: Path) -> None:
    """Any other folder can end in a number."""
    for name in ("backup-1", "b-1", "c-1", f"a-0.{LONG}-delete"):
        (tmp_path / name).mkdir()
    (tmp_path / "b-1" / "partition.metadata").write_text("no id")
    (tmp_path / "c-1" / "partition.metadata").mkdir()
    (tmp_path / "d-1").write_text("no folder")
    (one,) = partition_folders(str(tmp_path / FOLDER))
    assert (one.name, one.fate, one.topic_id) == (f"a-0.{LONG}-delete", "delete", None)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert partition_folders(str(tmp_path / "gone" / FOLDER)) == ()
