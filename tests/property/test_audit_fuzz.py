"""A changed byte in a segment or a checkpoint is never silent, wherever it lies, and never breaks
a check.
"""

import random
import shutil
from pathlib import Path

import pytest

from kraftlog.audit.runner import audit_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.golden.cases import DATA
from tests.unit.audit_logs import batch_starts

Told = set[tuple[object, ...]]
HEADER_BYTES = 21
"""Those of a batch's header that its CRC does not cover, and the CRC."""


def audit(root: Path) -> Told:
    """Everything that the audit of a folder says."""
    result = audit_of(Quorum(collect(find_replicas([str(root)]), Limits(), Redactor(b"k" * 32))))
    assert not [one for one in result.results if one.result == "errored"]
    rows = [(one.check, one.severity, one.row) for one in result.findings]
    return {
        (check, bad, row.replica, row.path, row.position, row.message) for check, bad, row in rows
    }


def copy(case: str, nodes: tuple[str, ...], root: Path) -> list[Path]:
    """Some nodes of a golden case, and their files of record batches."""
    for node in nodes:
        shutil.copytree(DATA / case / "replicas" / node, root / node)
    files = [one for one in root.rglob("*") if one.suffix in (".log", ".checkpoint")]
    files = [one for one in files if one.is_file() and one.stat().st_size]
    for one in files:
        one.chmod(0o644)
    return sorted(files)


@pytest.mark.parametrize(
    ("case", "nodes"), [("combined", ("1",)), ("isolated", ("1", "2")), ("legacy", ("1", "12"))]
)
@pytest.mark.parametrize("where", ["headers", "anywhere"])
def test_a_changed_byte_is_never_silent(
    case: str, nodes: tuple[str, ...], where: str, tmp_path: Path
) -> None:
    files = copy(case, nodes, tmp_path)
    before = audit(tmp_path)
    choose = random.Random(f"{case}/{where}")
    for number in range(60):
        path = choose.choice(files)
        raw = path.read_bytes()
        at = choose.randrange(len(raw))
        if where == "headers":
            # What no CRC covers, by turns: base offset, length, epoch, magic, and the CRC itself.
            at = choose.choice(batch_starts(raw)) + number % HEADER_BYTES
        byte = raw[at] ^ (1 << choose.randrange(8))
        path.write_bytes(raw[:at] + bytes([byte]) + raw[at + 1 :])
        told = audit(tmp_path)
        assert told - before, f"{path.name}: byte {at} is {byte}, was {raw[at]}"
        path.write_bytes(raw)


@pytest.mark.parametrize("size", [1, 60, 700, 4096])
def test_a_damaged_range_is_never_silent(size: int, tmp_path: Path) -> None:
    files = copy("combined", ("1",), tmp_path)
    before = audit(tmp_path)
    choose = random.Random(size)
    for round_number in range(12):
        path = choose.choice(files)
        raw = path.read_bytes()
        at = choose.randrange(len(raw))
        damaged = bytes(size) if round_number % 2 else choose.randbytes(size)
        changed = raw[:at] + damaged[: len(raw) - at] + raw[at + size :]
        path.write_bytes(changed)
        if changed != raw:
            assert audit(tmp_path) - before, f"{path.name}: {size} bytes at {at}"
        path.write_bytes(raw)


def test_a_file_that_is_cut_anywhere_breaks_no_check(tmp_path: Path) -> None:
    files = copy("combined", ("1",), tmp_path)
    choose = random.Random(7)
    for _ in range(40):
        path = choose.choice(files)
        raw = path.read_bytes()
        path.write_bytes(raw[: choose.randrange(len(raw))])
        audit(tmp_path)
        path.write_bytes(raw)
