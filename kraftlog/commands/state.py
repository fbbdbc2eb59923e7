"""The commands about states: `state`, `diff` and `checkpoint`. None of them needs Spark.

In: parsed arguments. Out: rows on stdout, a file under --out, notes on stderr, an exit code. `cli`
calls `add_commands`.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kraftlog.commands.times import time_ms
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import UsageError
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.report.rows import FORMATS, print_rows
from kraftlog.state.checkpoint import write_checkpoint
from kraftlog.state.coverage import scan
from kraftlog.state.difference import differences
from kraftlog.state.image import Image, image_of
from kraftlog.state.write import canonical_line, image_records, losses

Row = dict[str, Any]


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `state`, `diff` and `checkpoint`."""
    state = commands.add_parser("state", help="the state of one replica", description=_STATE)
    state.add_argument("path", metavar="PATH", help="one replica's folder, or a checkpoint file")
    _add_place(state)
    state.add_argument("--type", action="append", metavar="TYPE", help="only this record type")
    _add_output(state)
    state.set_defaults(command=_state)

    diff = commands.add_parser("diff", help="what differs between two states", description=_DIFF)
    diff.add_argument("before", metavar="A[@OFFSET]", help="a replica's folder or a checkpoint")
    diff.add_argument("after", metavar="B[@OFFSET]", help="the other one; default: its end")
    _add_output(diff)
    diff.set_defaults(command=_diff)

    checkpoint = commands.add_parser(
        "checkpoint",
        help="write a state as a .checkpoint that Kafka loads",
        description=_CHECKPOINT,
    )
    checkpoint.add_argument("path", metavar="PATH", help="one replica's folder")
    _add_place(checkpoint)
    checkpoint.add_argument("--out", required=True, type=Path, metavar="DIR", help="where to")
    checkpoint.add_argument(
        "--without-voters",
        action="store_true",
        help="leave out kraft.version and the voters: for controller.quorum.voters",
    )
    checkpoint.set_defaults(command=_checkpoint)


_STATE = (
    "The records which, replayed from nothing, give a replica's state: in Kafka's form, sorted."
)
_DIFF = (
    "What differs between two states, by key and field. Offsets are exclusive: A@7 holds 0 to 6."
)
_CHECKPOINT = "Write a state as a snapshot file that Kafka itself loads. It holds secrets in clear."


def _add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--at", type=int, metavar="N", help="records with offsets below N")
    place.add_argument("--at-time", metavar="TIME", help="as it was at this time (ISO 8601, or ms)")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, default="table")
    parser.add_argument("--reveal-secrets", action="store_true", help="do not mask secrets")


def _state(chosen: argparse.Namespace) -> int:
    image = image_of(
        scan(one_replica(chosen.path)),
        chosen.at,
        time_ms(chosen.at_time),
        _redactor(chosen),
    )
    _notes(image)
    print_rows(state_rows(image, chosen.type), chosen.format)
    return 0


def state_rows(image: Image, types: list[str] | None) -> Iterator[Row]:
    """The image's records in canonical order; only some types where they are named."""
    records = [one for one in image_records(image.state) if types is None or one.type in types]
    for one in sorted(records, key=lambda record: (canonical_line(record) + "\n").encode()):
        yield {"type": one.type, "record_version": one.version, "data": one.data}


def _diff(chosen: argparse.Namespace) -> int:
    redactor = _redactor(chosen)
    before, after = (_image_named(text, redactor) for text in (chosen.before, chosen.after))
    for image in (before, after):
        _notes(image)
    rows = (
        one._asdict() | {"key": list(one.key)} for one in differences(before.state, after.state)
    )
    print_rows(rows, chosen.format)
    return 0


def _image_named(text: str, redactor: Redactor) -> Image:
    """A path, with an offset after the last @ where that is a number."""
    path, at, offset = text.rpartition("@")
    if not at or not offset.isdigit() or Path(text).exists():
        path, offset = text, ""
    return image_of(scan(one_replica(path)), int(offset) if offset else None, None, redactor)


def _checkpoint(chosen: argparse.Namespace) -> int:
    """Never masked: Kafka could not use the credentials otherwise."""
    image = image_of(
        scan(one_replica(chosen.path)), chosen.at, time_ms(chosen.at_time), Redactor(None)
    )
    _notes(image)
    lost = list(losses(image.state))
    target = write_checkpoint(image, chosen.out, not chosen.without_voters)
    if lost:
        _note(
            f"{len(lost)} values have no place in this metadata.version, the first: {lost[0].what}"
        )
    _note(f"{target} holds secrets in clear; only its owner may read it")
    print(target)
    return 0


def one_replica(path: str) -> Replica:
    """The one replica at a path.

    Raises UsageError where several lie below it."""
    found = find_replicas([path])
    if len(found) > 1:
        labels = ", ".join(one.label for one in found)
        raise UsageError(f"{path} holds {len(found)} replicas ({labels}); name the folder of one")
    return found[0]


def _redactor(chosen: argparse.Namespace) -> Redactor:
    return Redactor(None if chosen.reveal_secrets else os.urandom(32))


def _notes(image: Image) -> None:
    """What a reader of the state should know of where it comes from."""
    base = f"snapshot {image.base.name}" if image.base else "the log's beginning"
    _note(f"{image.replica} at offset {image.end_offset}, from {base}")
    if not image.is_committed:
        _note(f"records from offset {image.committed_offset} on may not be committed")
    if image.open_since is not None:
        _note(f"a transaction is open since offset {image.open_since}; its records are left out")
    if image.faults:
        first = image.faults[0]
        where = (
            "in the snapshot" if first.origin.offset is None else f"at offset {first.origin.offset}"
        )
        _note(f"{len(image.faults)} records have no effect, the first {where}: {first.detail}")


def _note(text: str) -> None:
    print(f"kraftlog: {text}", file=sys.stderr)
