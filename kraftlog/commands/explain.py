"""`explain`: what happened to one object, record by record. Needs no Spark.

In: the words of a person, and a quorum's files or a lake. Out: a timeline, for people or as rows.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from kraftlog.commands.command import DESCRIBE_HELP, add_output, add_roots, command, options_of
from kraftlog.commands.faults import fault_rows, tell_faults
from kraftlog.commands.values import time_ms
from kraftlog.errors import UsageError
from kraftlog.explain.authorizer import Access, read_accesses
from kraftlog.explain.subject import FORMS, Subject, subjects_of
from kraftlog.explain.timeline import (
    Entry,
    History,
    entry_rows,
    file_history,
    first_told,
    nearest_names,
)
from kraftlog.pipeline.progress import waiting
from kraftlog.plain import some, tell
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows
from kraftlog.report.timeline_text import print_timeline
from kraftlog.source.collected import collected
from kraftlog.source.task_settings import redactor_of

_DESCRIPTION = f"""\
What happened to one object: which record changed it, from what to what, when, under which leader,
and whether that is committed.

WHAT is {FORMS}.
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+", metavar="WHAT", help="what to explain: see above")
    where = parser.add_mutually_exclusive_group(required=True)
    add_roots(where)
    where.add_argument("--lake", metavar="FOLDER", help="a lake that holds the quorum")
    parser.add_argument("--quorum-describe", metavar="FILE", help=DESCRIBE_HELP)
    parser.add_argument(
        "--between", nargs=2, metavar=("T1", "T2"), help="only these times (ISO 8601, or ms)"
    )
    parser.add_argument(
        "--authorizer-log",
        metavar="FILE",
        help="a kafka-authorizer.log of the controllers (its times taken as UTC): who likely asked",
    )
    add_output(parser)


@command(
    "explain",
    "the timeline of a topic, partition, broker, config, principal, quota or offset range",
    _DESCRIPTION,
    arguments=_arguments,
    examples="""
    kraftlog explain topic orders --input replicas/
    kraftlog explain partition orders-3 --input replicas/ --between 2026-11-21 2026-11-22
    kraftlog explain broker 12 --input replicas/ --format json
    kraftlog explain config topic/orders --input replicas/ --authorizer-log kafka-authorizer.log
    kraftlog explain principal User:alice --lake lake/
    kraftlog explain 170-180 --input replicas/
    """,
)
def _explain(chosen: argparse.Namespace) -> int:
    subjects = subjects_of(chosen.what)
    low, high = (time_ms(text) for text in chosen.between or (None, None))
    if low is not None and high is not None and low > high:
        raise UsageError("--between names an end that lies before its beginning")
    accesses = _accesses(chosen.authorizer_log)
    history, faults = _opened(chosen) if chosen.lake is None else _lake_history(chosen.lake)
    subject, entries = first_told(subjects, history, (low, high), accesses)
    known = history(subject)[0]
    if subject.kind == "offsets" and subject.end > known.end:
        tell(f"the logs at hand end at offset {known.end}")
    for first, last in known.untold(subject):
        tell(
            f"what changed at offsets {first} to {last} is not known: no file at hand leads up to it"
        )
    is_whole = not tell_faults(faults)
    tables = set[str]()
    shown = _noted(entries or (), tables)
    if chosen.format == "json":
        print_rows(entry_rows(shown), "json")
    else:
        print_timeline(subject.title, shown, is_whole=is_whole)
    if entries is None:
        _tell_nearest(subject, history)
    elif subject.kind == "partition" and "partitions" not in tables:
        tell(f"no record shown is of {subject.title} itself, all are of its topic")
    elif accesses and chosen.format != "json":
        tell("records name no principal: who asked is likely, not proven")
    return 0


def _noted(entries: Iterable[Entry], tables: set[str]) -> Iterator[Entry]:
    """The same entries; the tables that they change, as they are asked for."""
    for one in entries:
        tables.update(change.table for change in one.changes)
        yield one


def _tell_nearest(subject: Subject, history: History) -> None:
    """Say where nothing of that name was ever there, and what is called nearly so."""
    names = nearest_names(subject, history)
    if names is not None:
        kind, name = subject.bearer
        near = f", but {some(names)}" if names else ""
        tell(f"the records at hand know no {kind} {name}{near}")


def _lake_history(path: str) -> tuple[History, Iterable[Row]]:
    from kraftlog.pipeline.explained import faults_in, known_in, moments_in
    from kraftlog.tables.place import lake_at

    lake = lake_at(path)
    known = known_in(lake)
    return lambda subject: (known, moments_in(lake, subject)), faults_in(lake)


def _opened(chosen: argparse.Namespace) -> tuple[History, Iterable[Row]]:
    options = options_of(chosen)
    with waiting("explain"):
        quorum = collected(options.input, options)
    return file_history(quorum, redactor_of(options)), fault_rows(quorum)


def _accesses(path: str | None) -> list[Access]:
    if path is None:
        return []
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as lines:
            found = list(read_accesses(lines))
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}") from error
    if not found:
        raise UsageError(f"{path}: no line of Kafka's authorizer is in it")
    return found
