"""Which function of `quorum` fills which table that holds copies against each other."""

from kraftlog.pipeline.derive import Derived
from kraftlog.pipeline.run import Run
from kraftlog.quorum.pairs import divergence_rows
from kraftlog.quorum.ranking import restore_rows
from kraftlog.quorum.voter_changes import voter_change_rows
from kraftlog.tables.copies import DIVERGENCES, RESTORE_RANKING, VOTER_CHANGES

COPIES: tuple[Derived[Run], ...] = (
    Derived(DIVERGENCES, lambda run: divergence_rows(run.quorum)),
    Derived(RESTORE_RANKING, lambda run: restore_rows(run.quorum)),
    Derived(VOTER_CHANGES, lambda run: voter_change_rows(run.quorum)),
)
