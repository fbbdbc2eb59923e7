"""The command line: arguments → one library call → rows on stdout, progress and errors on stderr, an exit code.

Exit codes: 0 nothing at or above `--fail-on`; 1 findings at or above it; 2 the command could not do its work, with one sentence.
Commands that need Spark import it only when they run.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from kraftlog import __version__
from kraftlog.commands_state import add_commands as add_state_commands
from kraftlog.decode.listing import RecordFilter, batch_rows, record_rows
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import KraftlogError, UsageError
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.report.rows import FORMATS, print_rows

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = build_parser()
    chosen = parser.parse_args(arguments)
    command: Command = chosen.command
    try:
        return command(chosen)
    except KraftlogError as error:
        print(f"kraftlog: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): end quietly, as other tools do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("kraftlog: interrupted", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        print(f"kraftlog: {message}; see '{self.prog} --help'", file=sys.stderr)
        raise SystemExit(2)


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = _Parser(prog="kraftlog", description="Audit and analyse Kafka's KRaft metadata logs.")
    parser.add_argument("--version", action="version", version=f"kraftlog {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    batches = _listing(commands, "batches", "one row per record batch", _batches)
    records = _listing(commands, "records", "one row per record, decoded", _records)
    records.add_argument("--type", action="append", metavar="TYPE", help="only this record type")
    records.add_argument("--from-offset", type=int, metavar="N", help="first offset")
    records.add_argument("--to-offset", type=int, metavar="N", help="offset after the last")
    records.add_argument("--since", metavar="TIME", help="not before this time (ISO 8601, or ms)")
    records.add_argument("--until", metavar="TIME", help="before this time (ISO 8601, or ms)")
    records.add_argument("--key", metavar="TEXT", help="only records that hold this value")
    del batches
    add_state_commands(commands, _time_ms)
    return parser


def _listing(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, about: str, command: Command) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=about, description=about)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folders or files")
    parser.add_argument("--format", choices=FORMATS, default="table")
    parser.add_argument("--reveal-secrets", action="store_true", help="do not mask secrets")
    parser.set_defaults(command=command)
    return parser


def _redactor(chosen: argparse.Namespace) -> Redactor:
    return Redactor(None if chosen.reveal_secrets else os.urandom(32))


def _batches(chosen: argparse.Namespace) -> int:
    print_rows(batch_rows(find_replicas(chosen.paths), Limits()), chosen.format)
    return 0


def _records(chosen: argparse.Namespace) -> int:
    wanted = RecordFilter(
        frozenset(chosen.type) if chosen.type else None,
        chosen.from_offset,
        chosen.to_offset,
        _time_ms(chosen.since),
        _time_ms(chosen.until),
        chosen.key,
    )
    rows = record_rows(find_replicas(chosen.paths), Limits(), _redactor(chosen), wanted)
    print_rows(rows, chosen.format)
    return 0


def _time_ms(text: str | None) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time (UTC where it names no zone) or of a plain number."""
    if text is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time: write 2026-11-21T12:03:00Z, or ms") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
