"""The real cases that people have met, each with where its directory comes from, what the audit
must find in it, and a phrase of what it must advise.

`CASES` is the table. A directory is a capture of a real quorum (`golden`), staged with real Kafka
by a test of tests/kafka (`staged`), or written by the tests' own writer where staging is impossible
or would not hold still (`built`). `assert_told` holds an audit against a case.
"""

from dataclasses import dataclass, field

from kraftlog.audit.every_check import BY_NAME
from kraftlog.audit.runner import AuditResult

ANYWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Finding:
    """A finding that must be there: its check and severity, words of its message, and words of the
    advice (in the message, or in what the guidance says of the check).
    """

    check: str
    severity: str
    says: str
    advice: str


@dataclass(frozen=True)
class Case:
    """A real case: its source, the origin of its directory and where that is; `also` are further
    checks that may be critical, as they tell of the same thing.
    """

    source: str
    origin: str
    where: str
    findings: tuple[Finding, ...]
    also: frozenset[str] = field(default=ANYWHERE)


def case(
    source: str, origin: str, where: str, *findings: tuple[str, str, str, str], also: str = ""
) -> Case:
    told = tuple(Finding(*one) for one in findings)
    return Case(source, origin, where, told, frozenset(also.split()))


W, C, INFO = "warning", "critical", "info"
STATIC, DYNAMIC, BROKERS = (
    f"tests/kafka/test_cases_{one}.py" for one in ("static", "voters", "brokers")
)

CASES: dict[str, Case] = {
    "ghost controllers block an upgrade": case(
        "strimzi#11039, KAFKA-20395, KAFKA-20295", "golden", "ghosts-4.4",
        ("controllers_are_voters", W, "Controller 5 is registered, but is not a voter", "once more"),
        ("controllers_are_voters", INFO, "Controller 4 is registered", "It holds back no upgrade"),
    ),
    "4.4 unregisters a ghost": case(
        "KIP-1312", "golden", "unregistered-4.4",
    ),
    "metadata.version is stuck": case(
        "KAFKA-20839", "built", "no_feature_record",
        ("features_recorded", W, "has no metadata.version", "metadata.version=20"),
    ),
    "metadata.version lags behind what all support": case(
        "KAFKA-20839", "built", "level_behind",
        ("features_upgradable", INFO, "metadata.version is 15", "kafka-features upgrade"),
    ),
    "endpoints of a dynamic quorum changed": case(
        "KAFKA-20427", "staged", f"{BROKERS}::test_endpoints_changed",
        ("voter_endpoints_agree", W, "no leader can be elected", "kraftlog recover"),
    ),
    "a removed voter joins again": case(
        "KAFKA-19850", "staged", f"{DYNAMIC}::test_a_removed_voter_joins_again",
        ("voters_removed_stay_away", W, "as a controller does by itself", "auto.join.enable"),
    ),
    "a voter's disk is replaced": case(
        "strimzi/proposals#203", "staged", f"{BROKERS}::test_a_disk_is_replaced",
        ("voter_directories_agree", W, "does not vote", "remove the voter"),
    ),
    "a voter's disk was replaced, captured": case(
        "strimzi/proposals#203", "golden", "voter-replaced",
        ("voter_directories_agree", W, "2 of 3 voters are left", "remove the voter"),
    ),
    "the voter was removed and added": case(
        "strimzi/proposals#203", "golden", "voter-readded",
    ),
    "two histories after a scale-out": case(
        "bitnami/charts#29167", "staged", f"{STATIC}::test_two_histories_after_a_scale_out",
        ("committed_data_consistent", C, "Two histories", "Never start nodes of both sides"),
        also="single_leader_per_epoch voter_holds_committed_data",
    ),
    "crash loop over a broker epoch, in the log": case(
        "bitnami/containers#80381", "built", "stale_broker_epoch",
        ("references_exist", C, "brokerEpoch is", "before any node restarts"),
    ),
    "crash loop over a broker epoch, on one node": case(
        "bitnami/containers#80381", "built", "wrong_broker_in_snapshot",
        ("snapshot_equals_replay", C, "brokerEpoch is 9", "Take the file of the same name from replica"),
        also="snapshots_agree",
    ),
    "a log ends inside another copy's batch": case(
        "UnexpectedAppendOffset", "staged", f"{DYNAMIC}::test_a_log_ends_inside_a_batch",
        ("snapshot_batch_aligned", C, "UnexpectedAppendOffsetException", "Set its log folder aside"),
    ),
    "a log ends inside another copy's batch, without a snapshot": case(
        "UnexpectedAppendOffset", "built", "inside_a_batch",
        ("log_ends_on_batch", W, "UnexpectedAppendOffsetException", "set its log folder aside"),
        also="log_start_covered",
    ),
    "a controller's disk is full": case(
        "sentry-charts#1954", "built", "full_disk",
        ("disk_has_room", W, "is full now", "never delete segments"),
        ("log_tail_complete", W, "torn batch", "cuts this end"),
        ("snapshot_leftover", INFO, "last written", "KAFKA-19541"),
        ("retention_keeps_up", W, "that retention should have dropped", "Delete nothing by hand"),
    ),
    "cold boot without commit": case(
        "strimzi#12760", "staged", f"{STATIC}::test_a_cold_boot_without_commit",
        ("newest_leader_commits", W, "has committed nothing", "advertises"),
    ),
    "cold boot, and no controller began": case(
        "strimzi#12760", "built", "only_raft_records",
        ("newest_leader_commits", W, "no controller has ever written", "one after the"),
    ),
    "election storm": case(
        "strimzi#11613", "staged", f"{STATIC}::test_an_election_storm",
        ("election_storm", W, "leaders came within one hour", "cannot fetch in time"),
    ),
    "leaders that do not last": case(
        "strimzi#11613", "staged", f"{STATIC}::test_leaders_that_do_not_last",
        ("leaders_last", W, "leaders in a row led for less than", "fetch.timeout.ms"),
    ),
    "a controller never arrives": case(
        "KAFKA-19541", "built", "stuck_joiner",
        ("controllers_catch_up", W, "tries to join and does not arrive", "snapshot.max.bytes"),
    ),
    "a migration that ran again deletes topics": case(
        "strimzi#11262", "built", "mass_deletion",
        ("mass_deletion", W, "topics were removed", "builds a quorum from it"),
    ),
    "a topic is created again, stray folders": case(
        "KAFKA-14616, KAFKA-21022", "staged", f"{BROKERS}::test_topics_without_their_broker",
        ("folders_match_topics", W, "was deleted", "Keep a copy"),
        ("partitions_have_leaders", W, "have no leader", "Start broker 12"),
        ("brokers_unfenced", W, "Broker 12 is fenced", "Start it"),
    ),
    "leaderless partitions": case(
        "leaderless partitions of 2025-12", "golden", "offline",
        ("partitions_have_leaders", W, "trio-1", "Start broker 14 of the ELR"),
        ("partitions_reach_min_isr", W, "pair-3", "Start what is missing"),
        ("folders_match_topics", W, "reborn has the id", "Keep a copy"),
        ("elections_clean", INFO, "solo-2", "Compare with what producers"),
    ),
}  # fmt: skip


def assert_told(name: str, result: AuditResult) -> None:
    """The case's findings are there with their advice, and nothing else is critical."""
    wanted = CASES[name]
    told = [(one.check, one.severity, one.row.message) for one in result.findings]
    assert not [one for one in result.results if one.result == "errored"], told
    for one in wanted.findings:
        found = [
            message
            for check, severity, message in told
            if (check, severity) == (one.check, one.severity) and one.says in message
        ]
        assert found, (one, told)
        text = found[0] + BY_NAME[one.check].meaning + BY_NAME[one.check].advice
        assert one.advice in text, (one, text)
    expected = {one.check for one in wanted.findings if one.severity == C} | wanted.also
    assert {check for check, severity, _ in told if severity == C} <= expected, told


def warnings(result: AuditResult) -> set[str]:
    """The checks that warn."""
    return {one.check for one in result.findings if one.severity == W}
