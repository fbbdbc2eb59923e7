"""A lake looked at, and kept small, without a run: what `kraftlog lake` does. Driver side.

In: options. Out: sentences. Checking writes nothing and needs no lease; the others hold it.
"""

from collections import defaultdict
from dataclasses import dataclass, replace

from kraftlog.config import Options
from kraftlog.errors import LakeError
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.lost_rows import lost_rows
from kraftlog.pipeline.run import lake_key, lake_of
from kraftlog.pipeline.writing import compact_all, expire_all, leased, publish, writing
from kraftlog.plain import runs_text
from kraftlog.tables.damage import damages, lost_to_readers
from kraftlog.tables.lease import at_work
from kraftlog.tables.place import state_of
from kraftlog.tables.upkeep import forget_runs


@dataclass(frozen=True, slots=True)
class Checked:
    """A sentence per damaged table, and one about the lake."""

    damaged: list[str]
    summary: str


def lake_damage(options: Options) -> Checked:
    """What is damaged or missing; the log of each table is read once.

    Raises LakeError where there is no lake or not its key, or a run is at work on it."""
    lake = replace(lake_of(options), opened={})
    state = state_of(lake.root)
    if state.owner is not None:
        raise LakeError(f"{lake.root}: {at_work(state)}; check again when it has ended")
    last = state.published[-1] if state.published else None
    found = list(damages(lake, all_tables().values(), last, deep=options.verify, opens=True))
    if last is not None or (not found and lake.run_number("runs")):
        lake_key(lake)
    if found:
        told = [f"{lake.path(one.table)}: {one.what}" for one in found]
        return Checked(
            told, "a run over the input with --verify rebuilds what the input still holds"
        )
    if hidden := [lake.path(one) for one in lost_to_readers(lake, last)]:
        what = (
            "another client has made other files of its files, and deleted those that readers see"
        )
        return Checked(
            [f"{one}: {what}" for one in hidden],
            "no row is lost: the next run lets readers see the other files",
        )
    marks = lake.marks(all_tables())
    files = sum(one.file_count for one in marks.values())
    how = (
        "read and compared with their checksums"
        if options.verify
        else "there in full size, each was opened"
    )
    whole = f"{lake.root}: {len(marks)} tables, {files:,} files, all {how}"
    finished = last.run if last else 0
    newest = max((one.run for one in marks.values()), default=0)
    if newest > finished:
        whole += f"; run {newest} is not finished: the next run over the same input ends it"
    runs = lake.rows("runs").to_pylist() if "runs" in marks else []
    runs = [one for one in runs if one["number"] <= finished]
    lost = defaultdict[str, list[int]](list)
    for number, names in lost_rows(lake, runs).items():
        for name in names:
            lost[name].append(number)
    parts = (f"; {name} holds no rows of {runs_text(held)}" for name, held in lost.items())
    summary = whole + "".join(parts) + (", and no input tells them again" if lost else "")
    return Checked([], summary)


def compact_lake(options: Options, least: int) -> str:
    """Make one file of each group of small ones; in words, how many."""
    with writing(options) as lake:
        count = compact_all(lake, all_tables().values(), least)
    return f"{lake.root}: {count:,} small files are in larger ones now"


def expire_lake(options: Options) -> str:
    """Forget all but the last runs' versions and rows; in words, how many files that deleted."""
    with leased(options) as (lake, lease):
        if not lease.state.published:
            return f"{lake.root}: no run has been published yet"
        forgotten = forget_runs(lake, all_tables().values(), options.keep_rows, 1)
        count = publish(lake, lease, options)
        lease.say(published=lease.state.published[-options.keep_runs :])
        count += expire_all(lake, lease)
        kept = ", ".join(str(one.run) for one in lease.state.published)
        left = lake.rows("runs", ["number"]).num_rows
    told = f", rows of {forgotten:,} old runs taken out" if forgotten else ""
    return f"{lake.root}: {count:,} files deleted{told}; readable are the runs {kept} as they were, and the rows of the last {left:,}"
