"""What an audit leaves for monitoring: the files of `--metrics-file` and `--junit-file`.

In: options, and what an audit says. Out: files, each replaced in one step, so that nobody reads
half of one (`tables.whole`); where they may lie says `outputs`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraftlog.config import Options
from kraftlog.errors import KraftlogError
from kraftlog.failures import FAILED, in_short
from kraftlog.log.storage import absolute
from kraftlog.pipeline.judge import Judged
from kraftlog.plain import tell
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


def watch_files(options: Options, quorum: Quorum, judged: Judged) -> int:
    """Of an audit without a lake; the audit's exit code, or that of a failure where that is 0 and a
    file is missing.
    """
    verdict, code = judged.verdict or {}, judged.exit_code
    is_whole = _write(options, lambda: watched_in_files(quorum, judged.rows, verdict, code))
    return code if is_whole else code or FAILED


def watch_lake(options: Options, lake: "Lake", run_id: str, judged: Judged) -> int:
    """The same of a lake's run."""
    verdict, code = judged.verdict or {}, judged.exit_code
    is_whole = _write(options, lambda: watched_in_lake(lake, run_id, judged.rows, verdict, code))
    return code if is_whole else code or FAILED


def _write(options: Options, watch: Callable[[], Watched]) -> bool:
    """Whether every file that is asked for was written; where one was not, stderr says why."""
    if not is_watched(options):
        return True
    watched = watch()
    written = []
    if options.metrics_file is not None:
        from kraftlog.report.exposition import metrics_text

        written.append(_put("metrics file", options.metrics_file, metrics_text(watched)))
    if options.junit_file is not None:
        from kraftlog.report.junit import junit_xml

        name = " ".join(options.input) or options.lake or "kraftlog"
        content = junit_xml(watched, name, options.fail_on, options.strict)
        written.append(_put("JUnit file", options.junit_file, content))
    return all(written)


def _put(what: str, path: str, content: bytes) -> bool:
    try:
        write_whole(absolute(path), content)
    except (OSError, KraftlogError) as error:
        tell(f"the {what} {path} could not be written ({in_short(error)})")
        return False
    return True
