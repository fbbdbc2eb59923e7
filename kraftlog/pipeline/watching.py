"""What an audit leaves for monitoring: the files of `--metrics-file` and `--junit-file`.

In: options, and what an audit says. Out: files, each replaced in one step, so that nobody reads
half of one (`tables.whole`); where they may lie says `outputs`.
"""

from collections.abc import Callable

from kraftlog.config import Options
from kraftlog.log.storage import absolute
from kraftlog.pipeline.judge import Judged
from kraftlog.relations import Row
from kraftlog.tables.whole import write_whole


def is_watched(options: Options) -> bool:
    """Whether any such file is asked for; looked at before the work begins.

    Raises ModuleNotFoundError where what writes it is missing."""
    if options.metrics_file is not None:
        import prometheus_client  # noqa: F401  # not after minutes of work
    return bool(options.metrics_file or options.junit_file)


def watch(options: Options, judged: Judged, replicas: Callable[[], list[Row]]) -> None:
    """Write the files that are asked for; `replicas` gives the rows of `replicas`, which one of them
    needs.
    """
    verdict = judged.verdict or {}
    if options.metrics_file is not None:
        from kraftlog.report.exposition import metrics_text

        write_whole(
            absolute(options.metrics_file),
            metrics_text(judged.rows, verdict, judged.exit_code, replicas()),
        )
    if options.junit_file is not None:
        from kraftlog.report.junit import junit_xml

        name = " ".join(options.input) or options.lake or "kraftlog"
        content = junit_xml(judged.rows, verdict, name, options.fail_on, options.strict)
        write_whole(absolute(options.junit_file), content)
