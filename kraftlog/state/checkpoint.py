"""An image as a `.checkpoint` that Kafka itself loads.

In: an image. Out: the bytes of the file and its name: a control batch with the header (and
kraft.version and the voters where the log knows them), data batches, a footer. The same image gives
the same bytes. Source: KIP-630, KIP-853, Kafka's RecordsSnapshotWriter.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from kraftlog.errors import InputError, UsageError
from kraftlog.log.names import checkpoint_name
from kraftlog.message.catalogue import known_spec
from kraftlog.state.encode import RawRecord, control_record, encode_batch, metadata_record
from kraftlog.state.image import Image
from kraftlog.state.state import State
from kraftlog.state.write import image_records

BATCH_LIMIT_BYTES = 1 << 20
"""Kafka's snapshot writer begins a new batch when one would grow beyond its 8 MiB; smaller ones are
as good.
"""
ONLY_READABLE_BY_OWNER = 0o600


def checkpoint_bytes(image: Image, with_voters: bool) -> bytes:
    """The whole file.

    `with_voters=False` leaves kraft.version and the voters out, for a quorum that names its voters
    in its configuration.
    """
    batches, offset = list[bytes](), 0
    for records, is_control in _groups(image, with_voters):
        batches.append(encode_batch(records, offset, image.epoch, image.timestamp, is_control))
        offset += len(records)
    return b"".join(batches)


def _groups(image: Image, with_voters: bool) -> Iterator[tuple[list[RawRecord], bool]]:
    header = {"version": 0, "lastContainedLogTimestamp": image.timestamp}
    voters = _voters(image.state) if with_voters else []
    yield [control_record(known_spec("SNAPSHOT_HEADER"), header), *voters], True
    group: list[RawRecord] = []
    size = 0
    for one in image_records(image.state):
        record = metadata_record(known_spec(one.type), one.version, one.data)
        size += len(record.value or b"")
        if group and size > BATCH_LIMIT_BYTES:
            yield group, False
            group, size = [], 0
        group.append(record)
    if group:
        yield group, False
    yield [control_record(known_spec("SNAPSHOT_FOOTER"), {"version": 0})], True


def _voters(state: State) -> list[RawRecord]:
    """Kafka writes these two only where kraft.version is 1 or more."""
    version = state.get("kraft_version", ())
    if version is None or version["kRaftVersion"] < 1:
        return []
    records = [control_record(known_spec("KRAFT_VERSION"), version)]
    voters = [value for _, value in sorted(state.rows("voters").items())]
    if voters:
        records.append(control_record(known_spec("KRAFT_VOTERS"), {"version": 0, "voters": voters}))
    return records


def write_checkpoint(image: Image, folder: Path, with_voters: bool = True) -> Path:
    """Write the file under the name that Kafka gives it; only its owner may read it, as it holds
    secrets in clear.

    A file that is there already is left as it is when it holds the same bytes. Raises UsageError
    when it holds others, InputError for an image that is no snapshot's.
    """
    if image.end_offset < 1 or image.epoch < 0:
        raise InputError(
            f"{image.replica}: a snapshot must hold at least one record; choose --at 1 or later"
        )
    if image.open_since is not None:
        raise InputError(
            f"{image.replica}: a transaction is open at {image.end_offset}; choose --at {image.open_since} or earlier, or an offset after its end"
        )
    content = checkpoint_bytes(image, with_voters)
    target = folder / checkpoint_name(image.end_offset, image.epoch)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder as --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if target.exists():
            if target.read_bytes() != content:
                raise UsageError(
                    f"{target} is there already and holds something else; choose another --out"
                )
            return target
        _write_once(target, content)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from error
    return target


def _write_once(target: Path, content: bytes) -> None:
    """All or nothing: a reader never sees half a file, and a file that appears meanwhile is not
    replaced.
    """
    part = target.with_name(target.name + ".part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, ONLY_READABLE_BY_OWNER)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        target.hardlink_to(part)
    finally:
        part.unlink()
