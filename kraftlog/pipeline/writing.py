"""The time in which a command writes a lake: alone, and told to readers at its end.

In: options. Out: the lake, held for as long as the block lasts. What a run has written is published
by one commit of the register, when all tables are there; a run that fails publishes nothing, and
the next one goes on where it stopped.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kraftlog.config import Options
from kraftlog.errors import LakeError, UsageError
from kraftlog.log import names
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.log.storage import absolute, refuse_below_input
from kraftlog.pipeline.run import lake_of
from kraftlog.plain import tell
from kraftlog.quorum.side_evidence import read_side_file
from kraftlog.tables.derived import all_tables
from kraftlog.tables.lake import Lake
from kraftlog.tables.lease import Lease, held, holding
from kraftlog.tables.place import require_place, state_of
from kraftlog.tables.register import Published

KEPT_RUNS = 5


@contextmanager
def writing(options: Options, *, reads_input: bool = False) -> Iterator[Lake]:
    """Hold the lake that the options name; makes it where the input is to be read.

    Within such a block another one changes nothing. Raises UsageError, InputError and LakeError
    before anything is written."""
    root = lake_of(options).root
    if held(root) is not None:
        yield lake_of(options)
        return
    replicas = _replicas(root, options) if reads_input else []
    if reads_input:
        require_place(root)
    else:
        state_of(root)
    with holding(root, options.lease_seconds, options.wait_seconds, tell) as lease:
        _require_cluster(lease, replicas)
        lake = lake_of(options)
        if lease.is_taken_over:
            tell(f"{root}: the run before this one was killed; its work is taken over")
            lake.fence(all_tables().values())
        yield lake
        _publish(lake, lease)


def _replicas(root: str, options: Options) -> list[Replica]:
    """The replicas of the input, which must not hold the lake."""
    if not options.input:
        raise UsageError("no input is named: say --input FOLDER")
    refuse_below_input("the lake", root, options.input)
    return find_replicas([absolute(one) for one in options.input])


def _require_cluster(lease: Lease, replicas: list[Replica]) -> None:
    """A lake belongs to the cluster of its first run."""
    found = _cluster_ids(replicas)
    known = lease.state.cluster_id
    if not found or known in found:
        return
    (usual, _), *_ = found.most_common(1)
    if known is not None:
        raise LakeError(
            f"{lease.register.root}: this lake holds the cluster {known}, and the input is of the "
            f"cluster {usual}; give each cluster a lake of its own"
        )
    lease.say(cluster_id=usual)


def _cluster_ids(replicas: list[Replica]) -> Counter[str]:
    """The cluster ids that `meta.properties` name, each with how many of the replicas do."""
    files = [file for one in replicas for file in one.files if file.kind == names.META_PROPERTIES]
    read = [read_side_file(file).value or {} for file in files]
    return Counter(sorted(one["cluster.id"] for one in read if one.get("cluster.id")))


def _publish(lake: Lake, lease: Lease) -> None:
    """Tell readers which versions of the tables belong together, once the newest run has written
    each table that an earlier one had.
    """
    marks = lake.marks(all_tables())
    number = marks["runs"].run if "runs" in marks else 0
    before = lease.state.published
    last = before[-1] if before else None
    names_before = set(last.versions) if last else set()
    is_whole = all(name in marks and marks[name].run >= number for name in names_before)
    versions = {name: mark.version for name, mark in marks.items()}
    if number and is_whole and (last is None or versions != dict(last.versions)):
        kept = tuple(one for one in before if one.run != number)[-KEPT_RUNS + 1 :]
        lease.say(published=(*kept, Published(number, versions)))
