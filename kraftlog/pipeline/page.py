"""The page `report.html`: of a lake's newest run, beside its tables, or of one audit, where it is
asked for. Driver side.

In: a lake, or a quorum and what an audit says of it. Out: one file. A page that cannot be written never
takes a run's result with it: the reason goes to stderr in one sentence.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kraftlog.failures import in_short
from kraftlog.plain import tell
from kraftlog.quorum.model import Quorum
from kraftlog.report.judgement import Judged
from kraftlog.report.view import PageData
from kraftlog.tables.lake_names import PAGE
from kraftlog.tables.parquet import lake_filesystem
from kraftlog.tables.reports import CONTRACT_RESULTS
from kraftlog.tables.whole import write_whole

if TYPE_CHECKING:
    from kraftlog.tables.lake import Lake

_LAST_MEASURE = "configuration_lint"


def page_path(lake: "Lake") -> str | None:
    """Where the page of a lake lies, be it of an earlier run; None where there is none."""
    filesystem, inner = lake_filesystem(lake.path(PAGE))
    return lake.path(PAGE) if filesystem.get_file_info(inner).is_file else None


def prepare_drawing() -> None:
    """Load what drawing needs, while others work."""
    with suppress(ImportError):  # whoever writes the page says what is missing
        from kraftlog.report import svg

        svg.get_ready()


def write_lake_page(lake: "Lake", elsewhere: str | None = None) -> str | None:
    """Write the page of the newest run into its lake, or elsewhere; its path, or None where that
    failed. A page that is younger than the tables is left as it is.
    """
    path = elsewhere or lake.path(PAGE)
    try:
        if elsewhere is None and _is_told(lake):
            return path
        from kraftlog.report.from_lake import page_of_lake

        _write(path, page_of_lake(lake))
    # The run's tables are committed: whatever breaks here must not hide them.
    except Exception as error:
        _tell_failure(path, error, is_earlier=elsewhere is None and _lies_there(lake))
        return None
    return path


def _lies_there(lake: "Lake") -> bool:
    """Whether the page of an earlier run lies in a lake; no, too, where nobody can say."""
    try:
        return page_path(lake) is not None
    except Exception:  # what could not be written is told all the same
        return False


def _is_told(lake: "Lake") -> bool:
    """Whether the page was written after the tables that a run writes last."""
    filesystem, inner = lake_filesystem(lake.path(PAGE))
    page = filesystem.get_file_info(inner)
    last = max(map(lake.written_ms, (CONTRACT_RESULTS.name, _LAST_MEASURE)))
    return bool(
        page.is_file and last and page.mtime_ns is not None and page.mtime_ns > last * 10**6
    )


def write_audit_page(
    path: str, quorum: Quorum, judged: Judged, inputs: tuple[str, ...]
) -> str | None:
    """The same for an audit without a lake."""
    try:
        from kraftlog.report.view import page_of_audit

        _write(path, page_of_audit(quorum, judged, inputs, datetime.now(UTC)))
    except Exception as error:
        _tell_failure(path, error)
        return None
    return path


def _write(path: str, data: PageData) -> None:
    from kraftlog.report.html_page import render_page

    write_whole(path, render_page(data).encode("utf-8"))


def _tell_failure(path: str, error: Exception, *, is_earlier: bool = False) -> None:
    still = "; the one that lies there is of an earlier run" if is_earlier else ""
    tell(
        f"the page {path} could not be written ({in_short(error)}); what was found is told without it{still}"
    )
