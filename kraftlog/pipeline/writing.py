"""The time in which a command writes a lake: alone, and told to readers at its end.

In: options. Out: the lake, held for as long as the block lasts. What a run has written is published
by one commit of the register, when all tables are there; a run that fails publishes nothing, and
the next one goes on where it stopped.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.config import Options
from kraftlog.errors import LakeError, UsageError
from kraftlog.log import names
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.log.storage import absolute, refuse_below_input
from kraftlog.log.stores import is_remote, side_by_side
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.progress import step
from kraftlog.pipeline.run import inputs_of, lake_of
from kraftlog.plain import runs_text, tell
from kraftlog.quorum.side_evidence import read_side_file
from kraftlog.tables.damage import damages, finished_run
from kraftlog.tables.lake import Lake, Mark
from kraftlog.tables.lake_names import KEY_FILE, PAGE, REGISTER
from kraftlog.tables.lease import Lease, lease_of
from kraftlog.tables.mend import Taken, mend
from kraftlog.tables.place import require_place, state_of
from kraftlog.tables.register import Published
from kraftlog.tables.spec import RUN_ID, RUNS, TableSpec
from kraftlog.tables.upkeep import compact, expire, forget_runs

_SMALL_FILES = 5
"""So many small files of one table become one."""
_OLD_RUNS = 5
"""Rows of so many runs go together: each time files that hold others are written again."""


@contextmanager
def writing(options: Options, *, reads_input: bool = False) -> Iterator[Lake]:
    """Hold the lake that the options name; makes it where the input is to be read.

    Raises UsageError, InputError and LakeError before anything is written."""
    with leased(options, reads_input=reads_input) as (lake, _):
        yield lake


@contextmanager
def leased(options: Options, *, reads_input: bool = False) -> Iterator[tuple[Lake, Lease]]:
    """The same, with the right to write it."""
    root = lake_of(options).root
    replicas = _replicas(root, options) if reads_input else []
    if reads_input:
        require_place(root)
    else:
        state_of(root)
        _require_apart(root, inputs_of(options))
    with lease_of(root, options.lease_seconds, options.wait_seconds, tell) as lease:
        _require_cluster(lease, replicas)
        mended = _made_whole(Lake(root, lease.token, lease.opened), lease, options, reads_input)
        lake = Lake(root, lease.token, lease.opened)
        yield lake, lease
        if mended is not None:
            _tell_lost(lake, mended)
        publish(lake, lease, options, is_anew=mended is not None)


def _replicas(root: str, options: Options) -> list[Replica]:
    """The replicas of the input, which must not hold the lake."""
    if not options.input:
        raise UsageError("no input is named: say --input FOLDER")
    _require_apart(root, options.input)
    return find_replicas([absolute(one) for one in options.input])


def _require_apart(root: str, inputs: Sequence[str]) -> None:
    """Raise UsageError where an input holds the lake, or what a link in it leads to, which would be
    written through it.
    """
    refuse_below_input("the lake", root, inputs)
    for link in () if is_remote(root) else _links(Lake(root)):
        refuse_below_input("the lake's link", link, inputs)


def _links(lake: Lake) -> Iterator[str]:
    """The links among what runs write: the lake's own names, and all that lies below them."""
    for path in map(lake.path, (REGISTER, KEY_FILE, PAGE, *all_tables())):
        below = (f"{top}/{one}" for top, *names in os.walk(path) for one in chain(*names))
        yield from filter(os.path.islink, (path, *below))


def _require_cluster(lease: Lease, replicas: list[Replica]) -> None:
    """A lake belongs to the cluster of its first run that names one, and a quorum to the cluster that
    most of its copies name: what the others hold is left out.
    """
    found = _cluster_ids(replicas)
    known = lease.state.cluster_id
    if known is not None and replicas and not found:
        tell(
            f"{lease.register.root}: the input names no cluster, and this lake holds the cluster {known}: whether it is the same nobody can tell"
        )
    if not found:
        return
    (usual, count), *_ = found.most_common(1)
    if known is not None:
        if found[known] == count:
            return
        what = "most of the input is" if known in found else "the input is"
        raise LakeError(
            f"{lease.register.root}: this lake holds the cluster {known}, and {what} of the cluster {usual}; give each cluster a lake of its own"
        )
    lease.say(cluster_id=usual)


def _cluster_ids(replicas: list[Replica]) -> Counter[str]:
    """The cluster ids that `meta.properties` name, each with how many of the replicas do."""
    files = [file for one in replicas for file in one.files if file.kind == names.META_PROPERTIES]
    read = [read_side_file(file).value or {} for file in files]
    return Counter(sorted(one["cluster.id"] for one in read if one.get("cluster.id")))


def _made_whole(lake: Lake, lease: Lease, options: Options, reads_input: bool) -> Taken | None:
    """Shut a dead owner out, take back what a killed run has left half done, and take out of the lake
    what is damaged, for the steps to write it again. None where nothing was: else the versions which
    earlier runs have published may not be theirs any more.

    Raises LakeError for damage where the input is not to be read."""
    published = lease.state.published
    last = published[-1] if published else None
    specs = all_tables().values()
    found = list(damages(lake, specs, last, deep=options.verify))
    unread = [one.table for one in found if not one.has_log]
    if reads_input and [name for name in unread if lake.cut_broken_end(name)]:
        found = list(damages(lake, specs, last, deep=options.verify))
    lake = _above_all_tokens(lake, lease, {one.table for one in found if not one.has_log})
    damaged = {one.table for one in found}
    whole = [spec for spec in specs if spec.name not in damaged]
    if lease.is_taken_over:
        tell(f"{lake.root}: the run before this one was killed; its work is taken over")
        lake.fence(whole)
    finished = finished_run(lake, last)
    lake.recover(whole, finished)
    if not found:
        return None
    if not reads_input:
        one = found[0]
        raise LakeError(
            f"{lake.path(one.table)} is damaged: {one.what}; run over the input, which rebuilds it"
        )
    for one in found:
        tell(f"{lake.path(one.table)} is damaged: {one.what}; this run makes it whole")
    return mend(lake, found, finished)


def _above_all_tokens(lake: Lake, lease: Lease, broken: Collection[str]) -> Lake:
    """A register that has lost its newest entries counts its owners anew, and tables remember a
    higher one: go on above it. Where that one lives, the register has moved on, and we end.
    """
    known = lake.newest_token(one for one in all_tables() if one not in broken)
    if known < lease.token:
        return lake
    lease.say(token=known + 1)
    return replace(lake, token=lease.token)


def _tell_lost(lake: Lake, taken: Taken) -> None:
    """Name what the input no longer holds, and what no input tells again."""
    _tell_lost_batches(lake, taken.contents)
    runs = lake.rows(RUNS.name, [RUN_ID.name, "number"]).to_pylist()
    told_anew = lake.run_number(RUNS.name)
    lost = {RUNS.name: set(taken.numbers) - {one["number"] for one in runs}}
    for name, ids in taken.runs.items():
        left = {*lake.rows(name, [RUN_ID.name]).column(0).to_pylist()}
        lost[name] = {one["number"] for one in runs if one[RUN_ID.name] in ids - left} - {told_anew}
    for name, numbers in lost.items():
        if numbers:
            tell(
                f"{lake.path(name)} holds no rows of {runs_text(sorted(numbers))} any more: whatever it told of them is lost"
            )


def _tell_lost_batches(lake: Lake, mended: pa.Array) -> None:
    if not len(mended):
        return
    stored = lake.rows("contents", ["batch_id"]).column("batch_id")
    found = pc.sum(pc.is_in(mended, value_set=stored.combine_chunks())).as_py() or 0
    if found < len(mended):
        tell(
            f"{lake.root}: {len(mended) - found:,} record batches that the damaged tables held are no longer in the input, so that their records are lost"
        )


def publish(lake: Lake, lease: Lease, options: Options, *, is_anew: bool = False) -> int:
    """Tell readers which versions of the tables belong together, once the newest run has written
    each table that an earlier one had; and keep the lake small. A lake that is told anew forgets
    what was published before. How many files it has deleted.
    """
    before = lease.state.published
    last = before[-1] if before else None
    marks = lake.marks(all_tables())
    number = marks["runs"].run if "runs" in marks else 0
    expected = set(last.versions if last else ()) & set(all_tables())
    is_whole = expected <= {name for name, mark in marks.items() if mark.run == number}
    is_whole &= all(mark.run <= number for mark in marks.values())
    is_told = last is not None and not is_anew and _versions(marks) == dict(last.versions)
    if not number or not is_whole or is_told:
        return 0
    with step("upkeep"):
        compact_all(lake, all_tables().values())
        forget_runs(lake, all_tables().values(), options.keep_rows, _OLD_RUNS)
        marks = lake.marks(marks)
        files = {name: mark.file_count for name, mark in marks.items()}
        kept = [one for one in before if one.run != number and not is_anew]
        kept = [*kept, Published(number, _versions(marks), files)][-options.keep_runs :]
        lease.say(published=tuple(kept))
        return expire_all(lake, lease)


def compact_all(lake: Lake, tables: Iterable[TableSpec], least: int = _SMALL_FILES) -> int:
    """Gather the small files of some tables, of those that are there; how many it has replaced."""
    return sum(compact(lake, spec, least) for spec in tables if lake.exists(spec.name))


def expire_all(lake: Lake, lease: Lease) -> int:
    """Delete what no published version needs; how many files that were."""

    def expired(name: str) -> int:
        known = (one.versions[name] for one in lease.state.published if name in one.versions)
        return expire(lake, name, min(known), lease.check)

    count = sum(side_by_side(expired, lease.state.published[-1].versions))
    # Of the register, which has no files, only the newest version counts.
    expire(lake, REGISTER, lease.state.version, lease.check)
    return count


def _versions(marks: dict[str, Mark]) -> dict[str, int]:
    return {name: mark.version for name, mark in marks.items()}
