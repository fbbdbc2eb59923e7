"""Where in a log a state is asked for: the log's end, an offset, a time, or what is committed.

In: the arguments `--at`, `--at-time` and `--quorum`, or the text after an @. Out: an `Image` there,
with the committed bound that its notes tell. Needs no Spark.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from kraftlog.commands.values import time_ms
from kraftlog.config import load_options
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError, UsageError
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.pipeline.progress import waiting
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.committed import Committed, committed_in
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rebuild import image_of
from kraftlog.source.collected import collected
from kraftlog.source.settings import limits_of
from kraftlog.state.image import Image

COMMITTED = "committed"
PLACES = """\
A state is that of all records below an offset. Which offset:

  (nothing)              the log's end; a note says from where on no commit is proven
  --at N                 records with offsets below N
  --at committed         as far as it is known to be committed: by the quorum whose roots --quorum
                         names, else by the newest complete snapshot of the replica itself
  --at-time TIME         as it was at a time: records before the first batch that is later
"""


@dataclass(frozen=True, slots=True)
class Place:
    """An offset (`at`, a number or `COMMITTED`), a time in ms, or the log's end where both are
    None.
    """

    at: int | str | None = None
    at_ms: int | None = None


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add `--at` and `--at-time`."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--at", type=_offset, metavar="N", help="records with offsets below N, or: committed"
    )
    place.add_argument("--at-time", metavar="TIME", help="as it was at this time (ISO 8601, or ms)")


def add_quorum(parser: argparse.ArgumentParser) -> None:
    """Add `--quorum`."""
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


def place_of(chosen: argparse.Namespace) -> Place:
    """The place that `--at` or `--at-time` names."""
    return Place(chosen.at, time_ms(chosen.at_time))


def path_and_place(text: str) -> tuple[str, Place]:
    """A path, with an offset, `committed` or an ISO 8601 time after its last @; a path that exists
    is one.
    """
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
    return found[0]


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """Builds images; the quorum, where one is named, is read once for all of them."""

    quorum: Quorum | None
    redactor: Redactor

    def at(self, path: str, place: Place) -> tuple[Image, Committed | None]:
        """The image of the replica at a path, and what the quorum says of it.

        Raises InputError where the state cannot be rebuilt, or nothing is known to be committed."""
        with waiting("state"):
            replica, quorum, committed = one_replica(path), self.quorum, None
            if quorum is None:  # what the replica says of itself
                limits = limits_of(load_options({"input": [replica.folder]}), self.redactor)
                quorum = Quorum(evidence_by(Collector(limits, self.redactor), [replica], None))
                label = replica.label
            else:
                label = _label_in(quorum, replica, path)
                committed = committed_in(quorum, label)
            held = Held.by(quorum, quorum.by_label[label])
            offset = _offset_of(held, place, committed)
            bound = None if committed is None else committed.offset
            return image_of(held, offset, place.at_ms, self.redactor, bound), committed


def images_of(chosen: argparse.Namespace, redactor: Redactor) -> ImageBuilder:
    """What `--quorum` names, read once."""
    if not chosen.quorum:
        return ImageBuilder(None, redactor)
    options = load_options({"input": chosen.quorum})
    return ImageBuilder(collected(options.input, options, redactor), redactor)


def _offset_of(held: Held, place: Place, committed: Committed | None) -> int | None:
    """The offset that is meant; None: the log's end, or a time."""
    if isinstance(place.at, int) or place.at is None:
        return place.at
    if committed is None:
        newest = max((one.end_offset for one in held.snapshots), default=0)
        why = "no snapshot vouches for an offset; name the quorum's folders with --quorum"
        committed = Committed(newest, why)
    if committed.offset <= 0:
        raise InputError(f"{held.label}: nothing is known to be committed: {committed.reason}")
    # A replica that is behind holds committed records up to its end only.
    return min(committed.offset, held.end_offset)


def _label_in(quorum: Quorum, replica: Replica, path: str) -> str:
    """The label of the same folder among the quorum's replicas; a file belongs to the folder that
    it lies in.
    """
    own = Path(replica.folder).resolve()
    for one in quorum.replicas:
        if Path(one.folder).resolve() in (own, own.parent):
            return one.label
    labels = ", ".join(one.label for one in quorum.replicas)
    raise UsageError(f"{path} is none of the replicas of --quorum ({labels}); name its root too")
