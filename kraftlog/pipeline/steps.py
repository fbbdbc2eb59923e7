"""The steps of a run, one by one or side by side. Spark starts when a step first needs it."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from kraftlog.config import Options
from kraftlog.contracts.beside import JUDGE
from kraftlog.errors import UnwritableError
from kraftlog.pipeline.audit import audit, is_recorded
from kraftlog.pipeline.contracts import Contracts, contracts_step
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.metrics import looked_at, metrics
from kraftlog.pipeline.page import page_path, prepare_drawing, write_lake_page
from kraftlog.pipeline.progress import step
from kraftlog.pipeline.run import Run, StartSpark
from kraftlog.pipeline.shared_measures import SharedMeasures
from kraftlog.pipeline.writing import compact_all, writing
from kraftlog.plain import tell
from kraftlog.report.judgement import Judged
from kraftlog.tables.place import lake_at
from kraftlog.tables.reports import CONTRACT_RESULTS
from kraftlog.tables.spec import decoded_tables, state_tables

_decode = step("decode")(decode)
_materialize = step("materialize")(materialize)
_audit = step("audit")(audit)
_metrics = step("metrics")(metrics)
_contracts = step("contracts")(contracts_step)
_page = step("page")(write_lake_page)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What some steps came to: their run, their exit code, whether there was anything new to read,
    what the audit among them says, and where its page lies, unless that could not be written.
    """

    run: Run
    exit_code: int = 0
    is_new: bool = True
    judged: Judged = field(default_factory=Judged)
    page: str | None = None


def run_steps(start_spark: StartSpark, options: Options, *names: str) -> Outcome:
    """Some of decode, materialize, metrics and audit, of the newest run. With the audit go the
    contracts of the tables, of a run that has them all, and the page.

    The exit code says whether there are findings at or above `fail_on`, or else a broken contract
    (2); of steps without an audit it is 0. Of a lake that cannot be written an audit tells what the
    last one has found.
    """
    try:
        return _steps(start_spark, options, *names)
    except UnwritableError as error:
        if names != ("audit",):
            raise
        return _recorded(start_spark, options, error)


def _steps(start_spark: StartSpark, options: Options, *names: str) -> Outcome:
    with writing(options, reads_input="decode" in names) as lake:
        run = Run(options, lake, start_spark)
        is_new = _decode(run) if "decode" in names else True
        is_audit = "audit" in names
        told = _materialize(run) if "materialize" in names else None
        judged = _audit(run, told) if is_audit else Judged()
        if "metrics" in names:
            _metrics(run)
        if not is_audit:
            return Outcome(run, 0, is_new)
        broken = 0
        if run.lacks(*(all_tables().keys() - {CONTRACT_RESULTS.name})):
            # They are recorded once: of a run that was killed among its measures, when it is whole.
            tell(
                "contracts are not judged: this run has not all tables yet; kraftlog run, or the metrics job before the audit's, writes them"
            )
        else:
            broken = _contracts(run)
        page = _page(run.lake)
        return Outcome(run, judged.exit_code(options) or broken, is_new, judged, page)


def _recorded(start_spark: StartSpark, options: Options, error: UnwritableError) -> Outcome:
    """What the newest whole run has found, where it was audited; raises the error where not."""
    run = Run(options, lake_at(options.lake or ""), start_spark)
    if not is_recorded(run) or run.lacks(CONTRACT_RESULTS.name):
        raise error
    tell(f"{error}: what the last audit has found is told, and the lake's page is not written")
    judged = audit(run)
    code = judged.exit_code(options) or contracts_step(run)
    return Outcome(run, code, judged=judged, page=page_path(run.lake))


def run_pipeline(start_spark: StartSpark, options: Options) -> Outcome:
    """All four, then the page; the exit code is the audit's. What waits for no other step goes on
    beside it, and contracts come after the metrics, which publish too.
    """
    with writing(options, reads_input=True) as lake, ThreadPoolExecutor(8) as beside:
        run = Run(options, lake, start_spark)

        def meanwhile() -> None:
            JUDGE.start()
            beside.submit(prepare_drawing)

        is_new = _decode(run, meanwhile)
        contracts = Contracts(run)
        contracts.begin(beside)
        told = _materialize(run)
        begun = looked_at(run, beside)
        contracts.begin(beside)
        judged = _audit(run, told)
        contracts.begin(beside)
        tidied = beside.submit(_tidied, run, begun)
        _metrics(run, begun, lambda: contracts.begin(beside))
        broken = _contracts(run, contracts)
        page = _page(run.lake)
        tidied.result()
    return Outcome(run, judged.exit_code(options) or broken, is_new, judged, page)


def _tidied(run: Run, begun: Future[SharedMeasures] | None) -> None:
    """Gather the small files of tables that no later step writes, when the long looks at them are
    over: what follows keeps one core busy, and this would come last.
    """
    if begun is not None:
        wait([begun])
        compact_all(run.lake, [*decoded_tables().values(), *state_tables().values()])
