"""`plan …`: what Kafka would do next with these replicas. None of the plans needs Spark.

In: parsed arguments. Out: rows on stdout, those of the plan first, then one with `fault` for each
range that could not be read.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kraftlog.audit.loss_words import UNKNOWN, apart_words, loss_rows, lost_words
from kraftlog.audit.losses import apart_fields, losses_of, lost_fields
from kraftlog.audit.runner import audit_of
from kraftlog.audit.triage import replicas_text
from kraftlog.commands.command import add_input, command, family, options_of
from kraftlog.commands.faults import print_with_faults
from kraftlog.commands.values import number_from
from kraftlog.errors import InputError
from kraftlog.pipeline.input_audit import replayed
from kraftlog.plain import sentence, tell
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords, Records
from kraftlog.relations import Row
from kraftlog.simulate.fetch import Dialect, truncate
from kraftlog.simulate.liveness import EXAMPLE_LINKS, Link, snapshot_transfer_rows, transfers_told
from kraftlog.simulate.lost import counted_in_files
from kraftlog.simulate.plan_rows import (
    Plans,
    boot_rows,
    cuts_nothing,
    election_rows,
    fetch_rows,
    likely_leaders,
    truncation_rows,
)
from kraftlog.simulate.restart import Restart
from kraftlog.simulate.restart_rows import apart_of, judged_restarts, restart_row
from kraftlog.source.collected import collected
from kraftlog.source.task_settings import redactor_of

_ROUND_TRIP_MS = 100
"""Of a link whose bandwidth alone was given: far away, as slow links are."""


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """Whose rules are followed."""
    parser.add_argument(
        "--dialect",
        choices=[str(one) for one in Dialect],
        default=str(Dialect.SHIPPED),
        help="whose rules: KIP-630 in version 19, KIP-630 as adopted, or those of Kafka itself (default)",
    )


def add_link(parser: argparse.ArgumentParser) -> None:
    """`--latency` and `--timeout` are short for `--round-trip-ms` and `--fetch-timeout-ms`."""
    positive: Any = partial(number_from, 1)
    parser.add_argument(
        "--bandwidth", type=positive, metavar="BYTES_PER_S", help="bandwidth of the link"
    )
    parser.add_argument(
        "--round-trip-ms",
        "--latency",
        type=partial(number_from, 0),
        metavar="MS",
        help="round trip of the link, there and back",
    )
    parser.add_argument(
        "--chunk",
        type=positive,
        metavar="BYTES",
        help="most bytes that one request for a snapshot brings: controller.quorum.fetch.snapshot.max.bytes",
    )
    parser.add_argument(
        "--fetch-timeout-ms",
        "--timeout",
        type=positive,
        metavar="MS",
        help="fetch timeout of the follower: controller.quorum.fetch.timeout.ms",
    )
    parser.add_argument(
        "--request-timeout-ms",
        type=positive,
        metavar="MS",
        help="how long it waits for the answer to one request: controller.quorum.request.timeout.ms",
    )


def links_of(bandwidth: int | None, round_trip_ms: int | None) -> tuple[Link, ...]:
    """The link that was named, or else the example links, with a round trip where one was named."""
    if bandwidth is not None:
        return (Link(bandwidth, _ROUND_TRIP_MS if round_trip_ms is None else round_trip_ms),)
    if round_trip_ms is not None:
        return tuple(replace(link, round_trip_ms=round_trip_ms) for link in EXAMPLE_LINKS)
    return EXAMPLE_LINKS


PLAN = family(
    "plan",
    "what Kafka would do next",
    "What Kafka would do next with these replicas, by its own rules.",
    takes="PLAN",
    examples="""
    kraftlog plan restart --input replicas/
    kraftlog plan election --input replicas/ --format json
    """,
)


NOT_SHOWN = "Whether it loses records of its own cannot be seen: no log of a newer epoch at hand reaches down to its end."


def _print(chosen: argparse.Namespace, rows: Callable[[Quorum], Iterable[Row]]) -> int:
    options = options_of(chosen)
    quorum = collected(options.input, options)
    return print_with_faults(rows(quorum), quorum, chosen.format)


def _of_truncation(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="every replica as leader, brokers too; by default the voter that would be elected",
    )


@command(
    "plan truncation",
    "what each replica would cut off its log, or lose to a snapshot, if another one led",
    arguments=_of_truncation,
    examples="""
    kraftlog plan truncation --input replicas/
    kraftlog plan truncation --input replicas/ --all
    """,
)
def _truncation(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    redactor = redactor_of(options)

    def rows(quorum: Quorum) -> Iterable[Row]:
        limits = quorum.evidence.limits
        records, counted = FileRecords(redactor, limits), counted_in_files(limits)
        leaders = None if chosen.all else likely_leaders(quorum)
        plans = Plans(quorum)
        found = list(truncation_rows(quorum, counted, leaders))
        cuts = [(row["follower"], row["truncation_offset"]) for row in found if row["records_lost"]]
        losses = losses_of(quorum, records, dict.fromkeys(cuts))
        for row in found:
            cut = row["follower"], row["truncation_offset"]
            known = losses.get(cut) if row["records_lost"] else None
            lost = [] if known is None else loss_rows(known)
            in_words = "" if known is None else lost_words(lost)
            mine, theirs = (
                plans.extent(quorum.by_label[row[one]]) for one in ("follower", "leader")
            )
            at = row["truncation_offset"]
            if at is None:
                in_words = NOT_SHOWN
            elif (kept := cuts_nothing(mine, at, truncate(mine, theirs))) is not None:
                in_words = sentence(kept)
            yield row | {"lost": in_words if chosen.format == "table" else lost}

    return _print(chosen, rows)


def _with_dialect(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_dialect(parser)


@command(
    "plan fetch",
    "what each replica, as leader, would answer to the next fetch of each other replica",
    arguments=_with_dialect,
    examples="kraftlog plan fetch --input replicas/",
)
def _fetch(chosen: argparse.Namespace) -> int:
    return _print(chosen, lambda quorum: fetch_rows(quorum, Dialect(chosen.dialect)))


@command(
    "plan boot",
    "whether each node starts, with which snapshot, and what it throws away",
    "Whether each node starts by what its files are, with which snapshot, and what it throws away. "
    "At which records of a snapshot or of the log it then stops, `plan restart` tells, which replays them.",
    arguments=add_input,
    examples="kraftlog plan boot --input replicas/",
)
def _boot(chosen: argparse.Namespace) -> int:
    return _print(chosen, boot_rows)


@command(
    "plan election",
    "which voter can win with whose votes, and what it would lack",
    "Which voter can win with whose votes, and what it would lack of all that is known to be committed. "
    "Who refuses a candidate holds more than it, or records of a newer epoch: these may be committed as well. "
    "`plan restart` tells who starts first so that they are kept.",
    arguments=_with_dialect,
    examples="kraftlog plan election --input replicas/",
)
def _election(chosen: argparse.Namespace) -> int:
    def rows(quorum: Quorum) -> Iterable[Row]:
        if quorum.voter_set is None:
            raise InputError(
                "no voters are known: no KRaftVoters or LeaderChange record, quorum-state or controller.quorum.voters names them"
            )
        found = list(election_rows(quorum, Dialect(chosen.dialect)))
        tell(_election_told(found))
        return found

    return _print(chosen, rows)


def _election_told(rows: Sequence[Row]) -> str:
    """What the rows of `election_rows` come to, in a sentence: who can win, and whose victory would
    lose what is committed.
    """
    can, may = (
        [row["candidate"] for row in rows if row["can_win"] is wanted] for wanted in (True, None)
    )
    told = [f"{replicas_text(can)} can win an election"] if can else []
    if may:
        told.append(f"of {replicas_text(may)} it is open: voters decide of whom nothing is known")
    if not told:
        told.append("no copy of a voter at hand can win an election")
    lacking = {row["candidate"]: row["lacks_committed_from_offset"] for row in rows}
    for one in (*can, *may):
        if lacking[one] is not None:
            told.append(
                f"if {replicas_text([one])} won, what is committed from offset {lacking[one]} on would be lost: kraftlog plan restart says who is started first"
            )
    return "; ".join(told)


def _over_link(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_link(parser)


@command(
    "plan snapshot",
    "how long each replica's latest snapshot and the log after it take over a link, and whether they ever arrive",
    arguments=_over_link,
    examples="kraftlog plan snapshot --input replicas/ --bandwidth 1000000",
)
def _snapshot(chosen: argparse.Namespace) -> int:
    links = links_of(chosen.bandwidth, chosen.round_trip_ms)
    chunks = None if chosen.chunk is None else (chosen.chunk,)

    timeouts = (chosen.fetch_timeout_ms, chosen.request_timeout_ms)
    rate = options_of(chosen).load_bytes_per_second

    def rows(quorum: Quorum) -> Iterable[Row]:
        found = list(snapshot_transfer_rows(quorum, rate, links, chunks, *timeouts))
        tell(transfers_told(found))
        return found if chosen.format == "json" else [_shown(row) for row in found]

    return _print(chosen, rows)


def _shown(row: Row) -> Row:
    """Of a transfer what people ask first; as JSON it is whole."""
    return {name: row[name] for name in _OF_TRANSFER}


_OF_TRANSFER = ("replica", "bandwidth_bytes_per_s", "chunk_bytes", "total_ms", "fits_fetch_timeout")
"""So many stand side by side in 80 columns."""

_COLUMNS = ("replica", "node_id", "verdict", "reason", "lost", "needs", "order")
"""Of a restart."""


@command(
    "plan restart",
    "may each node be restarted, and what would it lose",
    "For each node: safe, loses (and which objects), unsafe, or unknown (and whose copies would tell); with the order of a rolling restart. "
    "Only a node that has a place in `order` may be restarted now: while a finding is critical, or a check broke that could find such, none has, also where it is safe.",
    arguments=add_input,
    examples="""
    kraftlog plan restart --input replicas/
    kraftlog plan restart --input replicas/ --format json
    """,
)
def _restart(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = replayed(options.input, options)
    found = judged_restarts(quorum, audit_of(quorum))
    records = FileRecords(redactor_of(options), quorum.evidence.limits)
    rows = []
    for one in found:
        row = restart_row(quorum, one)
        row["lost"] = (
            _in_words(quorum, one, row["lost"])
            if chosen.format == "table"
            else list(_lost(quorum, records, one))
        )
        rows.append({name: row[name] for name in _COLUMNS})
    return print_with_faults(rows, quorum, chosen.format)


def _lost(quorum: Quorum, records: Records, one: Restart) -> Iterator[Row]:
    """What the records from `lost_from` on had changed, or what the replica has otherwise than the
    others; a row with `fault` where the state cannot be rebuilt there.
    """
    apart, found = apart_of(quorum, one), None
    if one.cut is not None:
        found = lost_fields(quorum, records, *one.cut)
    elif apart is not None:
        found = apart_fields(quorum, records, apart)
    elif not one.is_alone:
        return
    if found is None:
        yield {"fault": f"{one.replica}: {UNKNOWN}"}
        return
    for each in found:
        yield each._asdict() | {"key": list(each.key)}


def _in_words(quorum: Quorum, one: Restart, lost: list[Row] | None) -> str:
    """The first names of each kind; `--format json` has them whole."""
    apart = apart_of(quorum, one)
    if apart is not None:
        return apart_words(quorum, *apart).strip()
    return lost_words(lost) if one.cut is not None or one.is_alone else ""
