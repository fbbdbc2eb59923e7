"""The tables of what an audit says, declared: results, findings, the verdict, the values that it
went by, what may be restarted, what to restore from, contracts, and what the partitions' records have shown.
"""

import pyarrow as pa

from kraftlog import relations
from kraftlog.config import ValueSource
from kraftlog.relations import BOOL, INT, LONG, TEXT, column
from kraftlog.tables.promise import among, at_least, expected, known, not_below, unique
from kraftlog.tables.spec import per_run

_JUDGED = pa.struct(
    [
        column("replica", TEXT, "label of the copy; null: the history of all copies together"),
        column("start_offset", LONG, "first offset that was looked at"),
        column("end_offset", LONG, "end of what was looked at (exclusive)"),
    ]
)

CHECK_RESULTS = per_run(
    "check_results",
    "one row per check and run",
    column("check", TEXT, "name of the check"),
    column("severity", TEXT, "critical, warning or info"),
    column("scope", TEXT, "log, snapshot, replica or state"),
    column("result", TEXT, "passed, failed, errored or skipped"),
    column("finding_count", LONG, "bad rows"),
    column("reason", TEXT, "what it could not judge and why, or what error it met"),
    column("judged", pa.list_(_JUDGED), "over which copies and offsets it judged"),
    column("is_gap", BOOL, "whether it lacked something that a person could supply"),
    column("source", TEXT, "section of a KIP, ticket, or case behind it"),
    promises=(
        unique("check", why="one verdict per check and run"),
        expected(
            "column_distinct_values_to_equal_set",
            "a check that says nothing must not be taken for one that passed",
            column="check",
            value_set="@checks",
        ),
        among("result", "@outcomes", "whoever counts what passed relies on these words"),
        among("severity", "@severities", "exit codes follow from severities"),
        among(
            "finding_count",
            (0,),
            "a check that found something has not passed",
            result=("passed", "skipped"),
        ),
        known("reason", "a check that was not judged says why", result=("errored", "skipped")),
    ),
)

VERDICTS = per_run(
    "verdicts",
    "one row per run",
    column("verdict", TEXT, "sound, incomplete, attention or critical"),
    column("headline", TEXT, "the same in words, as the terminal and the page say it"),
    column("voters", pa.list_(INT), "the newest voter set; null where nothing says it"),
    column(
        "missing_voters",
        pa.list_(INT),
        "voters of whom there is no copy; while a change of voters may not be committed, also those before it",
    ),
    column("not_judged", TEXT, "checks that could not judge everything, and why, as JSON"),
    column("committed_lower", LONG, "every offset below it is committed"),
    column("committed_upper", LONG, "none from it on was ever committed; null: unknown"),
    column("lagging", TEXT, "replicas that are far behind, as JSON"),
    json=("not_judged", "lagging"),
)

SETTINGS = per_run(
    "settings",
    "one row per value that the audit of a run went by (options, what is known of the quorum, settings of each node) and run",
    column(
        "setting",
        TEXT,
        "name of the option or of the node's setting; voters, committed_lower, committed_upper",
    ),
    column("value", TEXT, "what the run went by; null: not given; keys are hidden"),
    column("unit", TEXT, "its unit, where it has one"),
    column("replica", TEXT, "copy whose node it is of; null: it is of the whole run"),
    column("node_id", INT, "id of that node"),
    column("source", TEXT, f"where it came from: {', '.join(ValueSource)}"),
    column(
        "path",
        TEXT,
        "the file that it stands in; with Kafka's default the server.properties that does not set it; null: none",
    ),
    column("message", TEXT, "why it is that, or why what a file says was passed over"),
    column(
        "feeds",
        pa.list_(TEXT),
        "the checks, tables and commands that go by it; empty: it changes no answer",
    ),
    promises=(
        unique("setting", "replica", why="one value per setting, replica and run"),
        known("source", "a value that comes from nowhere explains nothing"),
        among("source", tuple(ValueSource), "values are filtered by where they came from"),
    ),
)

RESTART_PLAN = per_run(
    "restart_plan",
    "one row per replica and run",
    column("replica", TEXT, "label of the copy"),
    column("node_id", INT, "its node id"),
    column("who", TEXT, "the node as a person calls it: controller 2, broker 12"),
    column("role", TEXT, "voter, observer or unknown"),
    column(
        "verdict",
        TEXT,
        "may it be restarted: safe, loses, unsafe or unknown; without a place in order it must wait, also where it is safe",
    ),
    column("reason", TEXT, "why"),
    column("lost_from", LONG, "first offset at which records are seen that a restart throws away"),
    column("lost", TEXT, "objects lost with them, by name, as JSON; null: not known"),
    column("needs", pa.list_(INT), "voters whose copies would settle what is unknown"),
    column("order", LONG, "place in a rolling restart; null: not to be restarted, or not yet"),
    json=("lost",),
)

RESTORE_RANKING = per_run(
    "restore_ranking",
    "one row per replica of the quorum and run",
    column("rank", LONG, "1 for the best replica to restore from"),
    relations.REPLICA,
    column("node_id", INT, "node.id of meta.properties"),
    column("role", TEXT, "voter, observer, or unknown"),
    column(
        "restores_from_offset",
        LONG,
        "first offset whose state its own files give; null: they give none",
    ),
    column("restores_to_offset", LONG, "last one (included) that counts"),
    relations.EPOCH,
    column(
        "committed_offsets_lacking",
        LONG,
        "committed offsets that it lacks; null: a segment that may hold them could not be read",
    ),
    column("damage_count", LONG, "places of its log and snapshots that cannot be read"),
    column("snapshot_path", TEXT, "its snapshot to begin with; null: from offset 0"),
    column("segment_paths", pa.list_(TEXT), "its segments to be replayed on it"),
    column("size_bytes", LONG, "size of these files"),
    column("reasons", pa.list_(TEXT), "what speaks for it, then what against it"),
    promises=(
        unique("rank", why="the replicas are in one order"),
        at_least("committed_offsets_lacking", 0, "a replica lacks some offsets, or none"),
    ),
)

FINDINGS = per_run(
    "findings",
    "one row per finding and run",
    column("check", TEXT, "name of the check"),
    column("severity", TEXT, "critical, warning or info"),
    column("scope", TEXT, "log, snapshot, replica or state"),
    column("result", TEXT, "failed or errored"),
    column("replica", TEXT, "the copy that is meant"),
    column("node_id", INT, "its node id"),
    column("path", TEXT, "the file"),
    column("position", LONG, "byte place in the file"),
    column("offset", LONG, "first log offset that is meant"),
    column("end_offset", LONG, "offset after the last that is meant"),
    relations.EPOCH,
    column("other_replica", TEXT, "the copy that it was compared with"),
    column("message", TEXT, "one sentence: what is wrong, and what to do"),
    column("evidence", TEXT, "details as JSON"),
    promises=(
        known("check", "a finding belongs to a check"),
        among("check", "@checks", "a name outside of the catalogue would be looked up in vain"),
        among("severity", "@severities", "exit codes follow from severities"),
        among("scope", "@scopes", "findings are grouped by what they look at"),
        expected(
            "column_value_lengths_to_be_between",
            "a finding is a sentence that says what is wrong and what to do",
            column="message",
            min_value=1,
        ),
        expected(
            "column_values_to_be_json_parseable", "scripts read the evidence", column="evidence"
        ),
        not_below(
            "end_offset", "offset", "a range of offsets ends after it begins", where_both=True
        ),
    ),
    json=("evidence",),
)

JUDGED = per_run(
    "judged",
    "one row per thing that the records of main have shown, and run: the next run over grown input judges only what is new",
    column("offset", LONG, "log offset of the record, or end offset of the snapshot"),
    column(
        "shown",
        TEXT,
        "a check; or judged_until, past, deletions, snapshot_compared, snapshot_refused",
    ),
    column("message", TEXT, "what the check says; else a version, what, or a snapshot's hash"),
    column("evidence", TEXT, "what goes with it, as JSON"),
    column("more", LONG, "how many more of its kind there are that are not kept"),
    json=("evidence",),
)

CONTRACT_RESULTS = per_run(
    "contract_results",
    "one row per contract of a published table, or of a check, and run",
    column("suite", TEXT, "suite of expectations: that of a table, history, or audit"),
    column("table_name", TEXT, "the table that it is about"),
    column("expectation", TEXT, "type of the expectation"),
    column("subject", TEXT, "column, count or check that it looks at"),
    column("severity", TEXT, "critical, warning or info"),
    column("result", TEXT, "passed, failed, errored or skipped"),
    column("observed", TEXT, "what was seen, as JSON"),
    column("reason", TEXT, "why the contract is there"),
    column("detail", TEXT, "why it was skipped, or what error it met"),
)
