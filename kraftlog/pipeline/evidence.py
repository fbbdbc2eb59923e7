"""The evidence of a lake's newest run, once per process: what the checks see, and what `replicas`
and `epochs` say.

In: a lake and options. Out: a `Quorum`. Runs on the driver.
"""

from pathlib import Path

from kraftlog.audit.collect import collect
from kraftlog.audit.describe import read_described
from kraftlog.audit.evidence import Described
from kraftlog.audit.quorum import Quorum
from kraftlog.config import Options
from kraftlog.errors import InputError
from kraftlog.log.directory import find_replicas
from kraftlog.log.storage import absolute
from kraftlog.pipeline.run import lake_key, newest_run
from kraftlog.source.settings import limits_of, redactor_of
from kraftlog.tables.lake import Lake

_KNOWN: dict[tuple[str, str], Quorum] = {}


def quorum_of(lake: Lake, options: Options) -> Quorum:
    """The quorum as it lies on the disks of the newest run; read once for all steps of a
    process.
    """
    run = newest_run(lake)
    key = (lake.root, run["run_id"])
    if key not in _KNOWN:
        _KNOWN.clear()
        roots = [absolute(root) for root in options.input or run["inputs"]]
        redactor = redactor_of(options, lake_key(lake))
        evidence = collect(
            find_replicas(roots), limits_of(options), redactor, described_of(options)
        )
        _KNOWN[key] = Quorum(evidence)
    return _KNOWN[key]


def described_of(options: Options) -> Described | None:
    """What a saved `kafka-metadata-quorum describe` says.

    Raises InputError where the file cannot be read."""
    if options.quorum_describe is None:
        return None
    try:
        return read_described(Path(options.quorum_describe).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{options.quorum_describe}: it cannot be read ({error})") from error
