"""An audit as Prometheus reads it: the text format, for node_exporter's textfile collector or any
file that is served.

In: what an audit says, and the rows of its replicas. Out: bytes. `METRICS` declares every metric: name, help and labels; ages are for
the reader to reckon, as Prometheus has it: `time() - …_timestamp_seconds`.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kraftlog import __version__
from kraftlog.audit.check import RANK
from kraftlog.audit.verdict import Grade
from kraftlog.plain import printable
from kraftlog.relations import Row
from kraftlog.report.judgement import Judged
from kraftlog.report.once import count_of
from kraftlog.report.view import offsets_behind

_RESULTS = ("passed", "failed", "errored", "skipped")
_REPLICA = ("replica", "node_id", "role")


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge: what it says, and by which labels its values differ."""

    name: str
    told: str
    labels: tuple[str, ...] = ()


METRICS = (
    Metric(
        "kraftlog_info", "The version that audited, and which cluster", ("version", "cluster_id")
    ),
    Metric("kraftlog_audit_timestamp_seconds", "When this was told; it stays where audits fail"),
    Metric("kraftlog_exit_code", "What the command ended with: 0, 1 for findings"),
    Metric("kraftlog_verdict", "1 for the verdict, 0 for the other grades", ("verdict",)),
    Metric("kraftlog_findings", "Findings", ("severity",)),
    Metric(
        "kraftlog_check_findings", "Findings of a check that could be run", ("check", "severity")
    ),
    Metric("kraftlog_checks", "Checks by their result; skipped is not judged", ("result",)),
    Metric(
        "kraftlog_checks_incomplete", "Checks that lacked something which a person could supply"
    ),
    Metric(
        "kraftlog_files_changed_in_place",
        "Files whose bits had changed under the same size and time",
    ),
    Metric("kraftlog_voters", "Voters of the newest voter set"),
    Metric("kraftlog_voters_missing", "Voters that were not copied"),
    Metric("kraftlog_log_start_offset", "First offset of the log", _REPLICA),
    Metric("kraftlog_log_end_offset", "Offset after the last of the log", _REPLICA),
    Metric(
        "kraftlog_lag_offsets",
        "Offsets behind the log that goes furthest of those that were copied",
        _REPLICA,
    ),
    Metric("kraftlog_leader_epoch", "Leader epoch of the last batch", _REPLICA),
    Metric("kraftlog_newest_record_timestamp_seconds", "Time of the newest record", _REPLICA),
    Metric("kraftlog_snapshot_end_offset", "End offset of the newest whole snapshot", _REPLICA),
    Metric(
        "kraftlog_snapshot_timestamp_seconds",
        "Time of the last record in the newest snapshot",
        _REPLICA,
    ),
    Metric(
        "kraftlog_committed_offset",
        "Below lower all is committed, from upper on nothing is; absent where it is not proven",
        ("bound",),
    ),
)
Samples = dict[str, list[tuple[tuple[str, ...], float]]]


def metrics_text(judged: Judged, exit_code: int, replicas: Sequence[Row]) -> bytes:
    """The whole file."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    clusters = {one["cluster_id"] for one in replicas if one["cluster_id"]}
    samples: Samples = {
        "kraftlog_info": [((__version__, ",".join(sorted(clusters))), 1)],
        "kraftlog_audit_timestamp_seconds": [((), time.time())],
        "kraftlog_exit_code": [((), exit_code)],
        "kraftlog_files_changed_in_place": [((), judged.changed_in_place)],
        **_of_verdict(judged.verdict),
        **_of_checks([*judged.lines()]),
        **_of_replicas(replicas),
    }

    class Told(Collector):
        def collect(self) -> Iterator[Any]:
            for metric in METRICS:
                if found := samples.get(metric.name):
                    family = GaugeMetricFamily(metric.name, f"{metric.told}.", labels=metric.labels)
                    for labels, value in found:
                        family.add_metric([printable(one) for one in labels], value)
                    yield family

    registry = CollectorRegistry()
    registry.register(Told())
    return bytes(generate_latest(registry))


def _of_verdict(verdict: Row) -> Samples:
    samples: Samples = {
        "kraftlog_verdict": [((one,), float(one == verdict["verdict"])) for one in Grade],
        "kraftlog_checks_incomplete": [((), len({one[0] for one in verdict["not_judged"]}))],
        "kraftlog_voters_missing": [((), len(verdict["missing_voters"]))],
    }
    if verdict["voters"] is not None:
        samples["kraftlog_voters"] = [((), len(verdict["voters"]))]
    bounds = {one: verdict[f"committed_{one}"] for one in ("lower", "upper")}
    samples["kraftlog_committed_offset"] = [
        ((name,), offset) for name, offset in bounds.items() if offset is not None
    ]
    return samples


def _of_checks(rows: Sequence[Row]) -> Samples:
    found = Counter[tuple[str, str]]()
    for row in rows:
        if row["result"] == "failed":
            found[row["check"], row["severity"]] += count_of([row])
    severities = Counter[str]()
    for (_, severity), count in found.items():
        severities[severity] += count
    results = Counter({row["check"]: row["result"] for row in rows}.values())
    clean = {(row["check"], row["severity"]): 0 for row in rows if row["result"] == "passed"}
    return {
        "kraftlog_findings": [((one,), severities[one]) for one in RANK],
        "kraftlog_check_findings": [*(clean | found).items()],
        "kraftlog_checks": [((one,), results[one]) for one in _RESULTS],
    }


def _of_replicas(replicas: Sequence[Row]) -> Samples:
    samples: Samples = {}

    def add(name: str, row: Row, value: float | None) -> None:
        if value is not None:
            labels = (row["replica"], "" if row["node_id"] is None else str(row["node_id"]))
            samples.setdefault(name, []).append(((*labels, row["role"] or ""), value))

    for row in replicas:
        snapshots = row["snapshots"] or []
        add("kraftlog_log_start_offset", row, row["log_start_offset"])
        add("kraftlog_log_end_offset", row, row["log_end_offset"])
        add("kraftlog_lag_offsets", row, offsets_behind(row, replicas))
        add("kraftlog_leader_epoch", row, row["last_epoch"])
        add("kraftlog_newest_record_timestamp_seconds", row, _s(row["newest_timestamp"]))
        add("kraftlog_snapshot_end_offset", row, max((one[0] for one in snapshots), default=None))
        add("kraftlog_snapshot_timestamp_seconds", row, _s(row["snapshot_timestamp"]))
    return samples


def _s(stamp: datetime | None) -> float | None:
    return None if stamp is None else stamp.timestamp()
