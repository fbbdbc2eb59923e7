"""The commands about states: `state`, `diff`, `checkpoint`, and `restorable`, which states can still
be rebuilt, and from whose files. None of them needs Spark.

In: parsed arguments, which say where in a log a state is asked for: `--at`, `--at-time` and
`--quorum`, or the text after an @. Out: rows on stdout, a file under --out, notes on stderr, what
nobody can rebuild among them, an exit code.
"""

import argparse
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from pathlib import Path

from kraftlog.commands.command import add_input, add_output, command, options_of
from kraftlog.commands.faults import print_with_faults
from kraftlog.commands.values import local_argument, time_ms
from kraftlog.config import load_options
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import UsageError
from kraftlog.log.directory import Replica, find_replicas, tell_left_out
from kraftlog.log.names import UNKNOWN, classify
from kraftlog.log.storage import refuse_below_input
from kraftlog.message.catalogue import record_types
from kraftlog.pipeline.input_audit import replayed
from kraftlog.pipeline.progress import waiting
from kraftlog.plain import counted, offsets_text, tell
from kraftlog.quorum.committed import Committed
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rebuild import COMMITTED, Place, image_of
from kraftlog.quorum.restorable import lost_everywhere, restorable
from kraftlog.recover.ranking import restore_rows
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows
from kraftlog.source.collected import collected
from kraftlog.source.task_settings import limits_of, redactor_of
from kraftlog.state.checkpoint import write_checkpoint
from kraftlog.state.difference import differences
from kraftlog.state.image import Image
from kraftlog.state.write import canonical_line, image_records, losses, losses_text

PLACES = """\
A state is that of all records below an offset. Which offset:

  (nothing)              the log's end; a note says from where on no commit is proven
  --at N                 records with offsets below N
  --at committed         as far as it is known to be committed: by the quorum whose roots --quorum
                         names, else by what the replica's own files prove
  --at-time TIME         as it was at a time: records before the first batch that is later
"""
_DIFF = """\
What differs between two states, by key and field. After an @ stands which state is meant: an
offset (exclusive: A@7 holds 0 to 6), committed (see --quorum), or a time (ISO 8601); nothing: the
log's end.
"""
_RESTORABLE = """\
From whose files can each replica's state be rebuilt? One row per replica, range of offsets (both
ends included) and source: the replica itself, where its own files do, else every other replica
whose files do, else the replicas whose logs do together (1 + 3: recover puts them together), with the snapshot to begin with (none: from offset 0) and the segments after it.

missing       why its own files do not: no_base (the log begins above 0, no snapshot reaches back),
              hole (missing or damaged batches, up to the next snapshot), after_end,
              unread (a file of its log that could not be read may give them)
same_history  whether the source tells that replica's own history there; empty: nothing at hand says
source        empty: no file at hand gives these states
"""


def _of_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="one replica's folder, or a checkpoint file")
    add_place(parser)
    add_quorum(parser)
    parser.add_argument("--type", action="append", metavar="TYPE", help="only this record type")
    add_output(parser)


@command(
    "state",
    "the state of one replica",
    f"The records which, replayed from nothing, give a replica's state: in Kafka's form, sorted.\n\n{PLACES}",
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
    image_in = images_of(chosen, redactor_of(options_of(chosen)))
    image, committed = image_in(chosen.path, asked_place(chosen))
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
    add_output(parser)


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
    image_in = images_of(chosen, redactor_of(options_of(chosen)))
    images = []
    for text in (chosen.before, chosen.after):
        image, committed = image_in(*path_and_place(text))
        _notes(image, committed)
        images.append(image)
    _tell_two_clusters(*images)
    rows = (
        one._asdict() | {"key": list(one.key)}
        for one in differences(*(image.state for image in images))
    )
    print_rows(rows, chosen.format)
    return 0


def _tell_two_clusters(one: Image, other: Image) -> None:
    """That what differs is no change, where two states are of two clusters by the files beside them."""
    if one.clusters and other.clusters and set(one.clusters).isdisjoint(other.clusters):
        tell(
            f"{one.replica} is of cluster {one.clusters[0]}, {other.replica} of cluster {other.clusters[0]}: neither state has become the other"
        )


def _of_checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="one replica's folder")
    add_place(parser)
    add_quorum(parser)
    parser.add_argument("--out", required=True, type=local_argument, metavar="DIR", help="where to")
    parser.add_argument(
        "--without-voters",
        action="store_true",
        help="leave out kraft.version and the voters: for controller.quorum.voters",
    )


@command(
    "checkpoint",
    "write a state as a .checkpoint that Kafka loads",
    f"Write a state as a snapshot file that Kafka itself loads. It holds secrets in clear text.\n\n{PLACES}",
    arguments=_of_checkpoint,
    examples="""
    kraftlog checkpoint replicas/1 --at 176 --out DIR
    kraftlog checkpoint replicas/1 --at committed --quorum replicas/ --out DIR
    """,
)
def _checkpoint(chosen: argparse.Namespace) -> int:
    """Never masked: Kafka could not use the credentials otherwise."""
    image, committed = images_of(chosen, Redactor(None))(chosen.path, asked_place(chosen))
    _notes(image, committed)
    lost = list(losses(image.state))
    inputs = [chosen.path, *(chosen.quorum or ()), one_replica(chosen.path).folder]
    refuse_below_input("the checkpoint's folder", str(chosen.out), inputs)
    target = write_checkpoint(image, chosen.out, not chosen.without_voters)
    if lost:
        tell(losses_text(lost))
    if image.inside is not None:
        start, end = image.inside
        batch = offsets_text(start, end)
        tell(f"offset {image.end_offset} lies inside a batch, of {batch}, not at {start} or {end}")
        tell("a node that begins with it cannot fetch on from others; a whole quorum may begin so")
    tell(f"{target} holds secrets in clear text; only its owner may read it")
    print(target)
    return 0


def _of_restorable(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--best",
        action="store_true",
        help="instead: the replicas, the best one to restore from first, with reasons",
    )


@command(
    "restorable",
    "which states can be rebuilt, and from whose files",
    _RESTORABLE,
    arguments=_of_restorable,
    examples="""
    kraftlog restorable --input replicas/
    kraftlog restorable --input replicas/ --best
    kraftlog restorable --input replicas/ --format json | jq 'select(.source == null)'
    """,
    note="Then `kraftlog checkpoint SOURCE --at OFFSET --out DIR` writes such a state as a snapshot.",
)
def _restorable(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    if chosen.best:
        with waiting("restorable"):
            quorum = replayed(options.input, options)
        return print_with_faults(restore_rows(quorum), quorum, chosen.format)
    quorum = collected(options.input, options)
    rows = ({**asdict(one), "segment_paths": list(one.segment_paths)} for one in restorable(quorum))
    print_with_faults(rows, quorum, chosen.format)
    for low, high in lost_everywhere(quorum):
        tell(f"the states at offsets {low} to {high} can be rebuilt from no file at hand")
    return 0


def _notes(image: Image, committed: Committed) -> None:
    """What a reader of the state should know of where it comes from."""
    base = f"snapshot {image.base_name}" if image.base else "the log's beginning"
    is_named = image.base_name is None or classify(image.base_name).kind != UNKNOWN
    where = f"offset {image.end_offset}" if is_named else "an offset that its name does not say"
    tell(f"{image.replica} at {where}, from {base}")
    if not image.is_committed:
        records = f"records from offset {image.committed_offset} on are committed"
        tell(f"{image.replica}: nothing proves that {records} ({committed.reason})")
    if image.open_since is not None:
        tell(
            f"{image.replica}: a transaction is open since offset {image.open_since}; its records are left out"
        )
    if image.unread:
        count = counted(len(image.unread), "place")
        tell(
            f"{image.replica}: what its log holds behind that cannot be read, in {count}: {image.unread[0]}"
        )
    if image.faults:
        first = image.faults[0]
        where = (
            "in the snapshot" if first.origin.offset is None else f"at offset {first.origin.offset}"
        )
        count = f"{counted(len(image.faults), 'record')} without effect"
        tell(f"{image.replica}: {count}, the first {where}: {first.detail}")


def add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--at", type=_offset, metavar="N", help="records with offsets below N, or: committed"
    )
    place.add_argument("--at-time", metavar="TIME", help="as it was at this time (ISO 8601, or ms)")


def add_quorum(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quorum",
        nargs="+",
        action="extend",
        metavar="ROOT",
        help="folders with all replicas of the quorum: they say what is committed",
    )


def _offset(text: str) -> int | str:
    if text == COMMITTED:
        return text
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset, nor {COMMITTED!r}") from error


def asked_place(chosen: argparse.Namespace) -> Place:
    return Place(chosen.at, time_ms(chosen.at_time))


def path_and_place(text: str) -> tuple[str, Place]:
    """A path, and the offset, `committed` or ISO 8601 time after an @ that is no part of it."""
    path, at, place = text.rpartition("@")
    if not at or not place or Path(text).exists():
        return text, Place()
    if place == COMMITTED or place.isdecimal():
        return path, Place(_offset(place))
    try:
        return path, Place(None, time_ms(place))
    except UsageError:
        return text, Place()  # an @ in the name of a folder that is not there


def one_replica(path: str) -> Replica:
    """The one replica at a path.

    Raises UsageError where several lie below it."""
    found = find_replicas([path])
    if len(found) > 1:
        labels = ", ".join(one.label for one in found)
        raise UsageError(f"{path} holds {len(found)} replicas ({labels}); name the folder of one")
    tell_left_out(found[0].files)
    return found[0]


def images_of(
    chosen: argparse.Namespace, redactor: Redactor
) -> Callable[[str, Place], tuple[Image, Committed]]:
    """Builds images as `image_of` says; the quorum of `--quorum` is read once for all of them."""
    options = load_options({"input": chosen.quorum or ()})
    quorum = collected(options.input, options, redactor) if chosen.quorum else None
    limits = limits_of(options, redactor)

    def image(path: str, place: Place) -> tuple[Image, Committed]:
        with waiting("state"):
            replica = one_replica(path)
            label = replica.label if quorum is None else _label_in(quorum, replica, path)
            return image_of(replica, label, quorum, place, limits, redactor)

    return image


def _label_in(quorum: Quorum, replica: Replica, path: str) -> str:
    """The label of the same folder, or of that which the file lies in, among the quorum's."""
    own = Path(replica.folder).resolve()
    for one in quorum.replicas:
        if Path(one.folder).resolve() in (own, own.parent):
            return one.label
    labels = ", ".join(one.label for one in quorum.replicas)
    raise UsageError(f"{path} is none of the replicas of --quorum ({labels}); name its root too")
