"""The commands about states: `state`, `diff` and `checkpoint`. None of them needs Spark.

In: parsed arguments. Out: rows on stdout, a file under --out, notes on stderr, an exit code.
"""

import argparse
import os
from collections.abc import Collection, Iterator
from typing import Any

from kraftlog.commands.command import add_format, command
from kraftlog.commands.place import (
    PLACES,
    add_place,
    add_quorum,
    images_of,
    one_replica,
    path_and_place,
    place_of,
)
from kraftlog.commands.values import local_path, record_types
from kraftlog.decode.redaction import Redactor
from kraftlog.log.names import UNKNOWN, classify
from kraftlog.log.storage import refuse_below_input
from kraftlog.plain import counted, offsets_text, tell
from kraftlog.quorum.committed import Committed
from kraftlog.report.rows import print_rows
from kraftlog.state.checkpoint import write_checkpoint
from kraftlog.state.difference import differences
from kraftlog.state.image import Image
from kraftlog.state.write import canonical_line, image_records, losses, lost_words

Row = dict[str, Any]


_STATE = (
    "The records which, replayed from nothing, give a replica's state: in Kafka's form, sorted."
)
_DIFF = """\
What differs between two states, by key and field. After an @ stands which state is meant: an
offset (exclusive: A@7 holds 0 to 6), committed (see --quorum), or a time (ISO 8601); nothing: the
log's end.
"""
_CHECKPOINT = (
    "Write a state as a snapshot file that Kafka itself loads. It holds secrets in clear text."
)


def _add_output(parser: argparse.ArgumentParser) -> None:
    add_format(parser)
    parser.add_argument("--reveal-secrets", action="store_true", help="do not mask secrets")


def _of_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="one replica's folder, or a checkpoint file")
    add_place(parser)
    add_quorum(parser)
    parser.add_argument("--type", action="append", metavar="TYPE", help="only this record type")
    _add_output(parser)


@command(
    "state",
    "the state of one replica",
    f"{_STATE}\n\n{PLACES}",
    arguments=_of_state,
    examples="""
    kraftlog state replicas/1                                      at the log's end
    kraftlog state replicas/1 --at 176                             records 0 to 175
    kraftlog state replicas/1 --at-time 2026-11-21T12:03:00Z       as it was then
    kraftlog state replicas/1 --at committed --quorum replicas/    what the quorum has committed
    """,
)
def _state(chosen: argparse.Namespace) -> int:
    types = record_types(chosen.type)
    image, committed = images_of(chosen, _redactor(chosen)).at(chosen.path, place_of(chosen))
    _notes(image, committed)
    print_rows(state_rows(image, types), chosen.format)
    return 0


def state_rows(image: Image, types: Collection[str] | None) -> Iterator[Row]:
    """The image's records in canonical order; only some types where they are named."""
    records = [one for one in image_records(image.state) if types is None or one.type in types]
    for one in sorted(records, key=lambda record: (canonical_line(record) + "\n").encode()):
        yield {"type": one.type, "record_version": one.version, "data": one.data}


def _of_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A[@PLACE]", help="a replica's folder or a checkpoint")
    parser.add_argument("after", metavar="B[@PLACE]", help="the other one; default: its end")
    add_quorum(parser)
    _add_output(parser)


@command(
    "diff",
    "what differs between two states",
    _DIFF,
    arguments=_of_diff,
    examples="""
    kraftlog diff replicas/1@176 replicas/1                        what came after offset 175
    kraftlog diff replicas/1 replicas/2                            two replicas, each at its end
    kraftlog diff replicas/1@2026-11-21T12:00:00Z replicas/1@2026-11-21T12:05:00Z
    kraftlog diff replicas/2@committed replicas/2 --quorum replicas/
    kraftlog diff older.checkpoint newer.checkpoint                two snapshots
    """,
)
def _diff(chosen: argparse.Namespace) -> int:
    images = images_of(chosen, _redactor(chosen))
    states = []
    for text in (chosen.before, chosen.after):
        image, committed = images.at(*path_and_place(text))
        _notes(image, committed)
        states.append(image.state)
    rows = (one._asdict() | {"key": list(one.key)} for one in differences(*states))
    print_rows(rows, chosen.format)
    return 0


def _of_checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="one replica's folder")
    add_place(parser)
    add_quorum(parser)
    parser.add_argument("--out", required=True, type=local_path, metavar="DIR", help="where to")
    parser.add_argument(
        "--without-voters",
        action="store_true",
        help="leave out kraft.version and the voters: for controller.quorum.voters",
    )


@command(
    "checkpoint",
    "write a state as a .checkpoint that Kafka loads",
    f"{_CHECKPOINT}\n\n{PLACES}",
    arguments=_of_checkpoint,
    examples="""
    kraftlog checkpoint replicas/1 --at 176 --out DIR
    kraftlog checkpoint replicas/1 --at committed --quorum replicas/ --out DIR
    """,
)
def _checkpoint(chosen: argparse.Namespace) -> int:
    """Never masked: Kafka could not use the credentials otherwise."""
    image, committed = images_of(chosen, Redactor(None)).at(chosen.path, place_of(chosen))
    _notes(image, committed)
    lost = list(losses(image.state))
    inputs = [chosen.path, *(chosen.quorum or ()), one_replica(chosen.path).folder]
    refuse_below_input("the checkpoint's folder", str(chosen.out), inputs)
    target = write_checkpoint(image, chosen.out, not chosen.without_voters)
    if lost:
        tell(lost_words(lost))
    if image.inside is not None:
        start, end = image.inside
        batch = offsets_text(start, end)
        tell(f"offset {image.end_offset} lies inside a batch, of {batch}, not at {start} or {end}")
        tell("a node that begins with it cannot fetch on from others; a whole quorum may begin so")
    tell(f"{target} holds secrets in clear text; only its owner may read it")
    print(target)
    return 0


def _redactor(chosen: argparse.Namespace) -> Redactor:
    return Redactor(None if chosen.reveal_secrets else os.urandom(32))


def _notes(image: Image, committed: Committed | None) -> None:
    """What a reader of the state should know of where it comes from."""
    base = f"snapshot {image.base_name}" if image.base else "the log's beginning"
    is_named = image.base_name is None or classify(image.base_name).kind != UNKNOWN
    where = f"offset {image.end_offset}" if is_named else "an offset that its name does not say"
    tell(f"{image.replica} at {where}, from {base}")
    if not image.is_committed:
        known = f" ({committed.reason})" if committed else ""
        tell(
            f"nothing proves that records from offset {image.committed_offset} on are committed{known}"
        )
    if image.open_since is not None:
        tell(f"a transaction is open since offset {image.open_since}; its records are left out")
    if image.unread:
        count = counted(len(image.unread), "place")
        tell(f"what its log holds behind that cannot be read, in {count}: {image.unread[0]}")
    if image.faults:
        first = image.faults[0]
        where = (
            "in the snapshot" if first.origin.offset is None else f"at offset {first.origin.offset}"
        )
        count = f"{counted(len(image.faults), 'record')} without effect"
        tell(f"{count}, the first {where}: {first.detail}")
