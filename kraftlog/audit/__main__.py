"""`python -m kraftlog.audit`: audit quorums without Spark, for small copies and for development.

Same arguments, lines and exit codes as `kraftlog audit`; one process reads everything.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kraftlog.audit.collect import collect
from kraftlog.audit.describe import read_described
from kraftlog.audit.run import AuditResult, audit_quorum
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError, KraftlogError
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit, print, and return the exit code."""
    chosen = _parser().parse_args(arguments)
    redactor = Redactor(None if chosen.reveal_secrets else os.urandom(32))
    roots = [[root] for root in chosen.each] or [chosen.input]
    worst = 0
    for paths in roots:
        extra = {"input": paths[0]} if chosen.each else {}
        try:
            result = _audit(paths, redactor, chosen.quorum_describe)
            for row in _lines(result, chosen.format):
                print(json.dumps(extra | row) if isinstance(row, dict) else row)
            code = result.exit_code(chosen.fail_on)
        except KraftlogError as error:
            print(f"kraftlog: {error}", file=sys.stderr)
            code = 2
        if chosen.each:
            print(json.dumps(extra | {"exit_code": code}), flush=True)
        worst = max(worst, code)
    return worst


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kraftlog.audit")
    parser.add_argument("command", nargs="?", choices=["audit"], help="for the shape of kraftlog")
    parser.add_argument("--input", nargs="+", default=[], metavar="ROOT")
    parser.add_argument("--each", nargs="+", default=[], metavar="ROOT")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    levels = ["critical", "warning", "info", "never"]
    parser.add_argument("--fail-on", choices=levels, default="critical")
    parser.add_argument("--quorum-describe", metavar="FILE")
    parser.add_argument("--reveal-secrets", action="store_true")
    return parser


def _audit(paths: list[str], redactor: Redactor, described: str | None) -> AuditResult:
    known = None
    if described is not None:
        try:
            known = read_described(Path(described).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{described} cannot be read ({error.strerror})") from error
    return audit_quorum(collect(find_replicas(paths), Limits(), redactor, known))


def _lines(result: AuditResult, form: str) -> Iterator[dict[str, Any] | str]:
    if form == "json":
        yield from result.rows()
        return
    for one in result.findings:
        where = f"{one.row.replica or 'quorum'}"
        yield f"{one.severity.upper():8} {one.check} [{where}] {one.row.message}"
    for other in result.results:
        if other.result in ("skipped", "errored"):
            yield f"{other.result.upper():8} {other.check}: {other.reason}"


if __name__ == "__main__":
    sys.exit(main())
