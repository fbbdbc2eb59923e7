"""`run`, the whole pipeline into Delta tables, a page, and a summary on the terminal; `audit` and
`replicas`: what is wrong with a quorum, and who its replicas are.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from kraftlog import relations
from kraftlog.audit.runner import audit_of
from kraftlog.commands.command import add_format, add_input, command, options_of
from kraftlog.commands.faults import print_with_faults
from kraftlog.commands.pull import PULL_OPTIONS, add_pull_options, pull_once
from kraftlog.commands.values import add_conf
from kraftlog.config import Options, ValueSource
from kraftlog.errors import UsageError
from kraftlog.extras import require
from kraftlog.failures import FAILED
from kraftlog.log.storage import absolute
from kraftlog.pipeline.arguments import add_options, options_in
from kraftlog.pipeline.input_audit import replayed
from kraftlog.pipeline.outputs import require_outputs, watch
from kraftlog.pipeline.progress import waiting
from kraftlog.plain import heard_or_not, tell, tell_as
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import divergence_rows
from kraftlog.quorum.replica_rows import replica_rows
from kraftlog.quorum.voter_changes import voter_change_rows
from kraftlog.relations import Row
from kraftlog.report.findings import print_findings
from kraftlog.report.judgement import Judged, judged_of
from kraftlog.report.printed_rows import print_rows
from kraftlog.source.collected import collected


def _of_run(parser: argparse.ArgumentParser) -> None:
    add_conf(parser)
    add_options(parser)
    add_pull_options(parser.add_argument_group("a running quorum, pulled first"))


@command(
    "run",
    "the whole pipeline into Delta tables, a page, and a summary",
    "Decode, materialize, audit and measure; only what is new is read. The page is report.html in the lake's folder.",
    arguments=_of_run,
    examples="""
    kraftlog run --input replicas/ --lake lake/
    kraftlog run --input replicas/ --lake lake/ --fail-on warning
    kraftlog run --bootstrap-controller c1:9093 --out replicas/live --lake live-lake/
    """,
)
def _run(chosen: argparse.Namespace) -> int:
    options = options_in(chosen)
    options = replace(options, input=(*options.input, *_pulled(chosen, options.input)))
    from kraftlog.pipeline.job import run_and_tell

    return run_and_tell("pipeline", "kraftlog run", options)


def _pulled(chosen: argparse.Namespace, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The folder that was pulled into, where a quorum is named and no root holds it already."""
    if chosen.bootstrap_controller is None:
        named = [one for one in PULL_OPTIONS if getattr(chosen, one)]
        if named:
            flag = "--" + named[0].replace("_", "-")
            raise UsageError(f"{flag} only goes with --bootstrap-controller")
        return ()
    if chosen.out is None:
        raise UsageError("--bootstrap-controller needs --out, the folder to pull into")
    path = pull_once(chosen).resolve()
    below = any(path.is_relative_to(Path(root).resolve()) for root in roots)
    return () if below else (str(chosen.out),)


def _of_audit(parser: argparse.ArgumentParser) -> None:
    add_conf(parser)
    add_options(parser)
    parser.add_argument(
        "--each", nargs="+", action="extend", metavar="ROOT", help="each root is its own quorum"
    )
    parser.add_argument("--report", metavar="FILE", help="also write the findings as a page")
    add_format(parser)


@command(
    "audit",
    "check a quorum's copies, print findings",
    "Check everything: what is damaged, where the copies differ, what a restart would lose, how the cluster is. With --lake, the results are kept in Delta tables.",
    arguments=_of_audit,
    examples="""
    kraftlog audit --input replicas/
    kraftlog audit --input replicas/ --report report.html
    kraftlog audit --input replicas/ --format json | jq 'select(.severity == "critical")'
    kraftlog audit --each quorum-a/ quorum-b/
    """,
)
def _audit(chosen: argparse.Namespace) -> int:
    options = options_in(chosen)
    if chosen.each:
        files = (chosen.report, options.metrics_file, options.junit_file)
        if options.input or options.lake or any(files):
            raise UsageError("--each takes the place of --input, and keeps no lake and no files")
        return _audit_each(chosen.each, options, chosen.format)
    if chosen.report is not None:
        require("page")
    require_outputs(options, chosen.report)
    report = None if chosen.report is None else absolute(chosen.report)
    if options.lake:
        return _audit_lake(options, chosen.format, report)
    if not options.input:
        raise UsageError("no input is named: say --input FOLDER")
    return _audit_files(options, chosen.format, report)


def _audit_files(options: Options, form: str, report: str | None) -> int:
    """Straight from the files, without Spark; nothing is kept but the page that is asked for."""
    with waiting("audit"):
        quorum = replayed(options.input, options)
        judged = judged_of(quorum, audit_of(quorum), options)
    code = judged.exit_code(options)
    _print(judged, code, form, " ".join(options.input))
    code = watch(options, judged, code, partial(replica_rows, quorum))
    if report is None:
        return code
    from kraftlog.pipeline.page import write_audit_page

    return _told(write_audit_page(report, quorum, judged, options.input), code)


def _told(page: str | None, code: int) -> int:
    """Say where a page lies that was asked for; one that is missing is a failure of its own."""
    if page is None:
        return code or FAILED
    tell_as("page", page)
    return code


def _audit_lake(options: Options, form: str, report: str | None) -> int:
    """Through the lake: only what is new is read, and what was found is kept."""
    from kraftlog.pipeline.job import starter
    from kraftlog.pipeline.page import write_lake_page
    from kraftlog.pipeline.steps import run_steps
    from kraftlog.tables.spec import REPLICAS

    whole = "decode", "materialize", "metrics", "audit"
    names = whole if options.input else ("audit",)
    done = run_steps(starter("kraftlog audit", options), options, *names)
    run, lake, code = done.run, done.run.lake, done.exit_code
    _print(done.judged, code, form, " ".join(options.input or run.row["inputs"]))
    replicas = partial(lake.rows_of_run, REPLICAS.name, run.run_id)
    code = watch(options, done.judged, code, replicas)
    if report is not None:
        return _told(write_lake_page(lake, report), code)
    if done.page is not None:
        _told(done.page, code)
    return code


def _audit_each(roots: list[str], options: Options, form: str) -> int:
    """Many quorums in one start, each by itself. A root that cannot be audited stops no other."""
    from kraftlog.pipeline.each import audit_each
    from kraftlog.pipeline.job import starter

    worst = 0
    for root, judged in audit_each(starter("kraftlog audit", options), roots, options):
        if judged.error:
            tell(judged.error)
        code = judged.exit_code(options)
        _print(judged, code, form, root, title=root)
        worst = max(worst, code)
    return worst


def _print(judged: Judged, code: int, form: str, name: str, title: str | None = None) -> None:
    """Findings, checks and the verdict with what it went by other than defaults; of an input that
    was not read there is no verdict. Who reads no more of it still asks for the exit code.
    """
    with heard_or_not(sys.stdout):
        if form != "json":
            print_findings(judged, title)
            return
        extra = {} if title is None else {"input": title}
        print_rows((extra | row for row in judged.lines()), form)
        given = [row for row in judged.settings if row["source"] not in _DEFAULTS]
        last = {"input": name, **judged.verdict, "settings": given, "exit_code": code}
        print(json.dumps(last))


_DEFAULTS = (ValueSource.DEFAULT, ValueSource.KAFKA_DEFAULT)


def _of_replicas(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--pairs",
        action="store_const",
        const=divergence_rows,
        dest="rows",
        help="instead: one row per pair, with how far the two agree, and which is behind or differs",
    )
    instead.add_argument(
        "--voters",
        action="store_const",
        const=voter_change_rows,
        dest="rows",
        help="instead: how the set of voters changed, and whether each change is committed",
    )


@command(
    "replicas",
    "one row per replica, per pair of them, or per change of the voter set",
    "One row per replica of a quorum: who it is, and what it holds.",
    arguments=_of_replicas,
    examples="kraftlog replicas --input replicas/",
)
def _replicas(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = collected(options.input, options)
    rows = _rows_of_replicas(quorum) if chosen.rows is None else chosen.rows(quorum)
    return print_with_faults(rows, quorum, chosen.format)


def _rows_of_replicas(quorum: Quorum) -> Iterator[Row]:
    names = [field.name for field in relations.REPLICAS.schema if field.name != "folder"]
    return ({name: row[name] for name in names} for row in replica_rows(quorum))
