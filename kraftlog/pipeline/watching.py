"""What an audit leaves for monitoring: the files of `--metrics-file` and `--junit-file`.

In: options, and what an audit says. Out: files, each replaced in one step, so that nobody reads
half of one (`tables.whole`); where they may lie says `outputs`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraftlog.config import Options
from kraftlog.log.storage import absolute
from kraftlog.pipeline.judge import Judged
from kraftlog.quorum.model import Quorum
from kraftlog.report.watched import Watched, watched_in_files, watched_in_lake
from kraftlog.tables.whole import write_whole

if TYPE_CHECKING:
    from kraftlog.tables.lake import Lake


def is_watched(options: Options) -> bool:
    """Whether any such file is asked for; looked at before the work begins.

    Raises ModuleNotFoundError where what writes it is missing."""
    if options.metrics_file is not None:
        import prometheus_client  # noqa: F401  # not after minutes of work
    return bool(options.metrics_file or options.junit_file)


def watch_files(options: Options, quorum: Quorum, judged: Judged) -> None:
    """Of an audit without a lake."""
    verdict = judged.verdict or {}
    _write(options, lambda: watched_in_files(quorum, judged.rows, verdict, judged.exit_code))


def watch_lake(options: Options, lake: "Lake", run_id: str, judged: Judged) -> None:
    """Of a lake's run."""
    verdict = judged.verdict or {}
    _write(options, lambda: watched_in_lake(lake, run_id, judged.rows, verdict, judged.exit_code))


def _write(options: Options, watch: Callable[[], Watched]) -> None:
    if not is_watched(options):
        return
    watched = watch()
    if options.metrics_file is not None:
        from kraftlog.report.exposition import metrics_text

        write_whole(absolute(options.metrics_file), metrics_text(watched))
    if options.junit_file is not None:
        from kraftlog.report.junit import junit_xml

        name = " ".join(options.input) or options.lake or "kraftlog"
        content = junit_xml(watched, name, options.fail_on, options.strict)
        write_whole(absolute(options.junit_file), content)
