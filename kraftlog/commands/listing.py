"""`batches` and `records`: rows straight from files, without Spark."""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial

from kraftlog.commands.command import add_output, command, options_of
from kraftlog.commands.values import millis_text, time_ms
from kraftlog.decode.listing import RecordFilter, batch_rows, record_rows
from kraftlog.errors import UsageError
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.message.catalogue import record_types
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows
from kraftlog.source.task_settings import limits_of, redactor_of


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folders or files")
    add_output(parser)


@command(
    "batches",
    "one row per record batch",
    arguments=_common,
    examples="""
    kraftlog batches replicas/1
    kraftlog batches replicas/1 --format json | jq 'select(.crc_valid == false)'
    """,
)
def _batches(chosen: argparse.Namespace) -> int:
    options, found = options_of(chosen), find_replicas(chosen.paths)
    rows = batch_rows(found, limits_of(options, redactor_of(options)))
    print_rows(rows, chosen.format, readable=partial(readable_row, _places(found)))
    return 0


def _of_records(parser: argparse.ArgumentParser) -> None:
    _common(parser)
    parser.add_argument("--type", action="append", metavar="TYPE", help="only this record type")
    parser.add_argument("--from-offset", type=int, metavar="N", help="first offset")
    parser.add_argument("--to-offset", type=int, metavar="N", help="only below this offset")
    parser.add_argument("--since", metavar="TIME", help="not before this time (ISO 8601, or ms)")
    parser.add_argument("--until", metavar="TIME", help="before this time (ISO 8601, or ms)")
    parser.add_argument("--key", metavar="TEXT", help="only records that hold this value")


@command(
    "records",
    "one row per record, decoded",
    arguments=_of_records,
    examples="""
    kraftlog records replicas/1 --type TOPIC_RECORD
    kraftlog records replicas/1 --from-offset 170 --to-offset 180
    kraftlog records replicas/1 --since 2026-11-21T12:00:00Z --key my-topic
    """,
)
def _records(chosen: argparse.Namespace) -> int:
    since, until = time_ms(chosen.since), time_ms(chosen.until)
    for first, end, names in (
        (chosen.from_offset, chosen.to_offset, "--from-offset and --to-offset"),
        (since, until, "--since and --until"),
    ):
        if first is not None and end is not None and first >= end:
            raise UsageError(f"nothing lies between {names}: the first has to be below the second")
    wanted = RecordFilter(
        record_types(chosen.type), chosen.from_offset, chosen.to_offset, since, until, chosen.key
    )
    options, found = options_of(chosen), find_replicas(chosen.paths)
    redactor = redactor_of(options)
    rows = record_rows(found, limits_of(options, redactor), redactor, wanted)
    print_rows(rows, chosen.format, readable=partial(readable_row, _places(found)))
    return 0


_TIMES = ("timestamp", "base_timestamp", "max_timestamp")


def _places(replicas: Sequence[Replica]) -> dict[str, str]:
    """Each replica's folder, and what it is called for short."""
    return {one.folder.rstrip("/"): one.label for one in replicas}


def readable_row(places: Mapping[str, str], row: Row) -> Row:
    """A row for people: times as UTC, files below the replica's label instead of the whole path."""
    folder, _, name = str(row.get("path") or "").rpartition("/")
    shown = dict(row)
    if folder in places:
        shown["path"] = f"{places[folder]}/{name}"
    for one in _TIMES:
        if isinstance(row.get(one), int):
            shown[one] = millis_text(row[one])
    return shown
