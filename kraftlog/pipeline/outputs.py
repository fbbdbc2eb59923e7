"""Where the files may go that a command is asked for beside its answer: the page, the metrics file
and the JUnit file. Looked at before the work begins, and not after it.

In: options and paths. Out: nothing, or a `UsageError` of one sentence.
"""

from collections.abc import Sequence
from pathlib import Path

from kraftlog.config import Options
from kraftlog.errors import UsageError
from kraftlog.log.storage import absolute, is_inside, real_path, refuse_below_input
from kraftlog.log.stores import is_remote
from kraftlog.tables.lake_names import KEY_FILE, PAGE, REGISTER
from kraftlog.tables.whole import is_stream


def require_outputs(options: Options, page: str | None = None) -> None:
    """Raise UsageError where a file would go below an input, into a lake, where a key lies that
    nothing rebuilds, or over another one of them. A lake's own page may be asked for by its name.
    """
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
