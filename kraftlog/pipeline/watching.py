"""What an audit leaves for monitoring: the files of `--metrics-file` and `--junit-file`.

In: options, and what an audit says. Out: files, each replaced in one step, so that nobody reads
half of one (`tables.whole`); where they may lie says `outputs`.
"""

from collections.abc import Callable

from kraftlog.config import Options
from kraftlog.errors import KraftlogError
from kraftlog.failures import FAILED, in_short
from kraftlog.log.storage import absolute
from kraftlog.plain import tell
from kraftlog.relations import Row
from kraftlog.report.judgement import Judged
from kraftlog.tables.whole import write_whole


def is_watched(options: Options) -> bool:
    """Whether any such file is asked for; looked at before the work begins.

    Raises ModuleNotFoundError where what writes it is missing."""
    if options.metrics_file is not None:
        import prometheus_client  # noqa: F401  # not after minutes of work
    return bool(options.metrics_file or options.junit_file)


def watch(options: Options, judged: Judged, code: int, replicas: Callable[[], list[Row]]) -> int:
    """Write the files that are asked for; `replicas` gives the rows of `replicas`, which one of them
    needs. The given exit code, or that of a failure where that is 0 and a file is missing.
    """
    written = []
    if options.metrics_file is not None:
        from kraftlog.report.exposition import metrics_text

        text = metrics_text(judged, code, replicas())
        written.append(_put("metrics file", options.metrics_file, text))
    if options.junit_file is not None:
        from kraftlog.report.junit import junit_xml

        name = " ".join(options.input) or options.lake or "kraftlog"
        written.append(_put("JUnit file", options.junit_file, junit_xml(judged, name, options)))
    return code if all(written) else code or FAILED


def _put(what: str, path: str, content: bytes) -> bool:
    """Whether a file was written; where it was not, stderr says why."""
    try:
        write_whole(absolute(path), content)
    except (OSError, KraftlogError) as error:
        tell(f"the {what} {path} could not be written ({in_short(error)})")
        return False
    return True
