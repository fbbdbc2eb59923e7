"""The body of every file in `jobs/`: arguments → options → one step → exit code.

Every option of `conf/kraftlog.toml` is an argument of the same name (`--split-size-bytes 1048576`),
and `--conf` names a TOML file.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kraftlog.config import Options
from kraftlog.failures import guarded, interrupts_kept, without_debug
from kraftlog.pipeline.arguments import OptionParser, add_options, options_in
from kraftlog.pipeline.outputs import require_outputs, watch
from kraftlog.pipeline.run import StartSpark
from kraftlog.pipeline.steps import run_pipeline, run_steps
from kraftlog.pipeline.tasks import Spark
from kraftlog.plain import heard_or_not
from kraftlog.report.summary import print_summary
from kraftlog.session import spark_for_tasks
from kraftlog.tables.spec import REPLICAS


def run_job(name: str) -> int:
    """Run one job by the arguments of this process; returns the exit code: 0, 1 for findings at or
    above `fail_on`, 2 where it could not do its work.
    """
    words, debug = without_debug(sys.argv[1:])

    def work() -> int:
        return run_and_tell(name, f"kraftlog {name}", job_options(name, words))

    return guarded(work, debug)


def run_and_tell(name: str, app_name: str, options: Options) -> int:
    """Run one step, or all; where that has audited, say what was found, on stdout and in the files
    that are asked for.
    """
    require_outputs(options)
    start_spark = starter(app_name, options)
    if name == "pipeline":
        done = run_pipeline(start_spark, options)
    else:
        done = run_steps(start_spark, options, name)
    if name in ("audit", "pipeline"):
        lake, run_id, judged = done.run.lake, done.run.run_id, done.judged
        with heard_or_not(sys.stdout):
            print_summary(lake, judged, done.page, is_new=done.is_new)
        replicas = partial(lake.rows_of_run, REPLICAS.name, run_id)
        return watch(options, judged, done.exit_code, replicas)
    return done.exit_code


def starter(app_name: str, options: Options) -> StartSpark:
    """A function that starts Spark, or joins the one that is there."""

    def start() -> Spark:
        with interrupts_kept():
            return spark_for_tasks(app_name, master=options.master or None)

    return start


def job_options(name: str, arguments: Sequence[str]) -> Options:
    """The options of a job's command line."""
    parser = OptionParser(prog=f"jobs/{name}.py")
    parser.add_argument("--conf", type=Path, metavar="FILE", help="options as TOML")
    add_options(parser)
    return options_in(parser.parse_args(arguments))
