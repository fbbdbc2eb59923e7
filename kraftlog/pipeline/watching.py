"""What an audit leaves for monitoring: the files of `--metrics-file` and `--junit-file`.

In: options, and what an audit says. Out: files, each replaced in one step, so that nobody reads
half of one (`tables.whole`); where they may lie says `outputs`.
"""

from collections.abc import Callable

from kraftlog.config import Options
from kraftlog.errors import KraftlogError
from kraftlog.failures import FAILED, in_short
from kraftlog.log.storage import absolute
from kraftlog.pipeline.judge import Judged
from kraftlog.plain import tell
from kraftlog.relations import Row
from kraftlog.tables.whole import write_whole


def is_watched(options: Options) -> bool:
    """Whether any such file is asked for; looked at before the work begins.

    Raises ModuleNotFoundError where what writes it is missing."""
    if options.metrics_file is not None:
        import prometheus_client  # noqa: F401  # not after minutes of work
    return bool(options.metrics_file or options.junit_file)


def watch(options: Options, judged: Judged, replicas: Callable[[], list[Row]]) -> int:
    """Write the files that are asked for; `replicas` gives the rows of `replicas`, which one of them
    needs. The audit's exit code, or that of a failure where that is 0 and a file is missing.
    """
    rows, verdict, code = judged.rows, judged.verdict or {}, judged.exit_code
    written = []
    if options.metrics_file is not None:
        from kraftlog.report.exposition import metrics_text

        text = metrics_text(rows, verdict, code, replicas())
        written.append(_put("metrics file", options.metrics_file, text))
    if options.junit_file is not None:
        from kraftlog.report.junit import junit_xml

        name = " ".join(options.input) or options.lake or "kraftlog"
        content = junit_xml(rows, verdict, name, options.fail_on, options.strict)
        written.append(_put("JUnit file", options.junit_file, content))
    return code if all(written) else code or FAILED


def _put(what: str, path: str, content: bytes) -> bool:
    """Whether a file was written; where it was not, stderr says why."""
    try:
        write_whole(absolute(path), content)
    except (OSError, KraftlogError) as error:
        tell(f"the {what} {path} could not be written ({in_short(error)})")
        return False
    return True
