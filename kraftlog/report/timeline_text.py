"""A timeline for people: a head line per record, then what it changed.

In: entries of `explain.timeline`. Out: text on a stream. On a terminal committed records are plain,
others coloured, so that what a restart may take back is seen at once.
"""

from collections.abc import Iterable, Iterator

from rich.text import Text

from kraftlog.explain.moments import SNAPSHOT
from kraftlog.explain.timeline import Entry
from kraftlog.plain import listed, natural, printable
from kraftlog.quorum.lineages import MAIN
from kraftlog.relations import moment as time_of
from kraftlog.report.terminal import console_on


def print_timeline(title: str, entries: Iterable[Entry], *, is_whole: bool) -> None:
    """Print every entry. `is_whole`: all that is at hand was read."""
    console = console_on()
    console.print(Text(printable(f"{title}, times in UTC"), style="bold"))
    is_told = False
    labels: tuple[str, ...] = (MAIN,)
    for held, one in _told_once(entries):
        if held != labels:
            labels = held
            console.print(Text(printable(_apart(labels, one.is_foreign)), style="yellow"))
        console.print(Text(printable(_head(one)), style="" if one.committed else "yellow"))
        for line in one.lines:
            console.print(Text(printable(f"    {line}")))
        if one.who:
            who = "; or ".join(map(str, one.who))
            console.print(Text(printable(f"    likely asked for by {who}"), style="dim"))
        is_told = True
    if not is_told:
        what = "at hand" if is_whole else "that could be read"
        console.print(f"nothing in the records {what} changed it")


def _told_once(entries: Iterable[Entry]) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Each entry with the lineages that hold it: what several replicas hold apart from the shared
    history is told once, and what they hold as it does, behind a batch that differs, not again.
    """
    shared: set[tuple[object, ...]] = set()
    apart: dict[tuple[object, ...], list[Entry]] = {}
    for one in entries:
        at = one.moment
        same = (at.offset, at.batch_leader_epoch, at.timestamp, at.record_type, one.lines)
        if at.lineage == MAIN:
            shared.add(same)
            yield (MAIN,), one
        elif same not in shared:
            apart.setdefault(same, []).append(one)
    labels = {key: tuple(one.moment.lineage for one in held) for key, held in apart.items()}
    order = {names: place for place, names in enumerate(dict.fromkeys(labels.values()))}
    for held in sorted(apart, key=lambda each: order[labels[each]]):
        yield labels[held], apart[held][0]


def _apart(labels: tuple[str, ...], is_foreign: bool) -> str:
    is_one = len(labels) == 1
    if is_foreign:
        why = "which is of another cluster" if is_one else "which are of another cluster"
    else:
        why = f"which {'departs' if is_one else 'depart'} from the others here"
    return f"only in the {'log' if is_one else 'logs'} of {listed(sorted(labels, key=natural))}, {why}:"


def _head(one: Entry) -> str:
    at = one.moment
    found = time_of(at.timestamp)
    time = f"{found:%Y-%m-%d %H:%M:%S}.{found.microsecond // 1000:03d}" if found else "(no time)"
    leader = "leader unknown" if one.leader is None else f"leader {one.leader}"
    if at.record_type == SNAPSHOT:
        holder = f" of {at.replicas[0]}" if at.replicas else ""
        return f"{time}  as the snapshot{holder} at offset {at.offset} has it"
    shown = "" if at.seen_offset == at.offset else f", seen from offset {at.seen_offset} on"
    epoch = f"epoch {at.batch_leader_epoch}, {leader}"
    return f"{time}  offset {at.offset}{shown}  {at.record_type}  {epoch}  {one.state}"
