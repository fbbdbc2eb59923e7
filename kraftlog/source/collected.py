"""Roots and options → the quorum whose copies lie there, and its newest state, read from their files.

What every command begins with that asks copies something. Imports no Spark; nothing is replayed.
"""

from collections.abc import Sequence

from kraftlog.config import Options, thresholds_of
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.describe import described_of, of_one_cluster
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rebuild import image_at
from kraftlog.simulate.plan_rows import Plans
from kraftlog.source.task_settings import limits_of, redactor_of
from kraftlog.state.image import Image


def collected(roots: Sequence[str], options: Options, redactor: Redactor | None = None) -> Quorum:
    """The quorum below some roots.

    Raises InputError where no copy lies there, or the describe is of another cluster.
    """
    redactor = redactor or redactor_of(options)
    return quorum_of(find_replicas(roots), options, redactor)


def quorum_of(found: Sequence[Replica], options: Options, redactor: Redactor) -> Quorum:
    """The same of replicas that were found before."""
    return quorum_by(Collector(limits_of(options, redactor), redactor), found, options)


def quorum_by(collector: Collector, found: Sequence[Replica], options: Options) -> Quorum:
    """The same as a collector reads them."""
    described, thresholds = described_of(options, found), thresholds_of(options)
    evidence = evidence_by(collector, found, described, thresholds)
    return Quorum(of_one_cluster(evidence, options))


def furthest_image(quorum: Quorum, redactor: Redactor, at: int | None) -> Image:
    """The image of the replica that holds most of what is committed, at an offset, or as far as is
    known to be committed (to the end of its history, where nothing is known of that).

    Raises InputError where no replica's state can be rebuilt there.
    """
    plans = Plans(quorum)
    reaches = {log.label: plans.committed_reach(log) for log in quorum.peers}
    first: InputError | None = None
    for label in sorted(reaches, key=lambda one: -reaches[one]):
        offset = at
        if offset is None:
            offset = min(reaches[label], quorum.bounds.lower or reaches[label])
        try:
            held = Held.by(quorum, quorum.by_label[label])
            return image_at(held, offset, redactor)
        except InputError as error:
            first = first or error
    raise first or InputError("no replica holds a readable metadata log")
