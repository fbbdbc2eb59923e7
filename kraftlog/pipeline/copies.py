"""Which function of `quorum` fills which table that holds copies against each other."""

from kraftlog.pipeline.derive import Derived
from kraftlog.quorum.pairs import divergence_rows
from kraftlog.quorum.ranking import restore_rows
from kraftlog.quorum.voter_changes import voter_change_rows
from kraftlog.tables.copies import DIVERGENCES, RESTORE_RANKING, VOTER_CHANGES

COPIES: tuple[Derived, ...] = (
    Derived(DIVERGENCES, lambda newest: divergence_rows(newest.quorum)),
    Derived(RESTORE_RANKING, lambda newest: restore_rows(newest.quorum)),
    Derived(VOTER_CHANGES, lambda newest: voter_change_rows(newest.quorum)),
)
