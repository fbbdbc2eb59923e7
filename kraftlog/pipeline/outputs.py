"""The files that a command is asked for beside its answer. Where they may go, the page, the metrics
file and the JUnit file, is looked at before the work begins; the last two, which an audit leaves for
monitoring, are written here.

In: options and paths; what an audit says. Out: nothing, or a `UsageError` of one sentence; files,
each replaced in one step, so that nobody reads half of one (`tables.whole`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from kraftlog.config import Options
from kraftlog.errors import KraftlogError, UsageError
from kraftlog.failures import FAILED, in_short
from kraftlog.log.storage import absolute, is_inside, real_path, refuse_below_input
from kraftlog.log.stores import is_remote
from kraftlog.plain import tell
from kraftlog.relations import Row
from kraftlog.report.judgement import Judged
from kraftlog.tables.lake_names import KEY_FILE, PAGE, REGISTER
from kraftlog.tables.whole import is_stream, write_whole


def require_outputs(options: Options, page: str | None = None) -> None:
    """Raise UsageError where a file would go below an input, into a lake, where a key lies that
    nothing rebuilds, or over another one of them. A lake's own page may be asked for by its name.

    Raises ModuleNotFoundError where what writes the metrics file is missing."""
    taken: dict[str, str] = {}
    own = None if options.lake is None else f"{real_path(options.lake)}/{PAGE}"
    named = (
        ("page", page),
        ("metrics file", options.metrics_file),
        ("JUnit file", options.junit_file),
    )
    asked = [(what, path) for what, path in named if path is not None]
    inputs = _inputs(options) if asked else ()
    for what, path in asked:
        refuse_below_input(f"the {what}", path, inputs)
        if not is_remote(path) and is_stream(absolute(path)):
            continue  # which replaces nothing
        target = real_path(path)
        if (other := taken.setdefault(target, what)) != what:
            raise UsageError(
                f"the {other} and the {what} are both to be {path}: name two different files"
            )
        lake = _lake_around(target, options.lake)
        if lake is not None and not (what == "page" and target == own):
            raise UsageError(
                f"the {what} {path} lies in the lake {lake}, where nothing else is written: name another place"
            )
    if options.metrics_file is not None:
        import prometheus_client  # noqa: F401  # not after minutes of work


def _inputs(options: Options) -> Sequence[str]:
    """What is read; only a lake tells it where no input is named."""
    if options.lake is None:
        return options.input
    from kraftlog.pipeline.run import inputs_of

    return inputs_of(options)


def _lake_around(target: str, named: str | None) -> str | None:
    """The lake that a real path lies in: the one that is named, or one that is there. In a store
    only what would be the key of another is looked for.
    """
    if named is not None and is_inside(target, real_path(named)):
        return named
    if is_remote(target):
        folder, _, last = target.rpartition("/")
        return folder if last == KEY_FILE else None
    around = (
        one
        for one in Path(target).parents
        for name in (KEY_FILE, REGISTER)
        if (one / name).exists()
    )
    return next(map(str, around), None)


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
