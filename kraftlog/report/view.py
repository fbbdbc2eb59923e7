"""What the page shows, as one frozen value, wherever it came from: a lake or a single audit.

In: what an audit says, and rows in the shapes of the tables `replicas`, `epochs`, `snapshots`.
Out: `PageData`, with the few derivations that the page and its drawings share. Nothing here knows
HTML. Offsets are log offsets, sizes bytes, times UTC.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from kraftlog import __version__
from kraftlog.metrics.snapshot_metrics import snapshot_rows
from kraftlog.plain import counted
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.replica_rows import epoch_rows, replica_rows
from kraftlog.relations import Row
from kraftlog.report.judgement import Judged
from kraftlog.report.once import called_in

_ROLES = {"voter": 0, "observer": 1}


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """Partitions that a broker leads in the newest state, those that it only follows, and those
    that nobody leads.
    """

    broker_id: int
    leads: int
    follows: int
    leaderless: int = 0


@dataclass(frozen=True, slots=True)
class TypeCount:
    """Records of one type in the slice of time that begins at `start` (`end` is exclusive)."""

    type: str
    start: datetime
    end: datetime
    count: int


@dataclass(frozen=True, kw_only=True)
class PageData(Judged):
    """Everything on the page: what an audit says, and over what; without a lake, but for what needs
    every record decoded. `scale` is what was read, in words.
    """

    version: str
    created: datetime
    inputs: tuple[str, ...]
    scale: str
    replicas: tuple[Row, ...]
    epochs: tuple[Row, ...]
    snapshots: tuple[Row, ...]
    loads: tuple[BrokerLoad, ...] = ()
    type_counts: tuple[TypeCount, ...] = ()
    has_lake: bool = True
    contracts: tuple[Row, ...] = ()

    @cached_property
    def ordered(self) -> tuple[Row, ...]:
        """The replicas as they are drawn."""
        return tuple(replicas_in_order(self.replicas))

    @cached_property
    def names(self) -> dict[str, str]:
        """What each replica is called, by its label."""
        return names_of(self.replicas, self.restart)

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The same without the folder, where that tells the replicas apart."""
        short = {label: name.removesuffix(f" ({label})") for label, name in self.names.items()}
        count = Counter(short.values())
        return {
            label: name if count[name] == 1 else self.names[label] for label, name in short.items()
        }

    @property
    def committed(self) -> tuple[int, int | None]:
        """The committed interval (lower, upper or None where nothing proves it)."""
        return self.verdict["committed_lower"], self.verdict["committed_upper"]

    @property
    def cluster_ids(self) -> tuple[str, ...]:
        """The cluster ids that the replicas name."""
        return tuple(sorted({one["cluster_id"] for one in self.replicas if one["cluster_id"]}))


def page_of_audit(
    quorum: Quorum, judged: Judged, inputs: tuple[str, ...], created: datetime
) -> PageData:
    """What an audit without a lake found in these roots at a time."""
    batches = sum(len(one.log) for one in quorum.replicas)
    scale = f"{counted(len(quorum.replicas), 'replica')}, {batches:,} record batches in their logs"
    return PageData(
        **vars(judged),
        version=__version__,
        created=created,
        inputs=inputs,
        scale=scale,
        replicas=tuple(replica_rows(quorum)),
        epochs=tuple(epoch_rows(quorum)),
        snapshots=tuple(snapshot_rows(quorum)),
        has_lake=False,
    )


def replicas_in_order(replicas: Iterable[Row]) -> list[Row]:
    """Voters, then observers, by node id and label."""
    return sorted(replicas, key=_place)


def _place(row: Row) -> tuple[int, int, str]:
    node = row["node_id"]
    return _ROLES.get(row["role"], 2), 1 << 31 if node is None else node, row["replica"]


def names_of(replicas: Iterable[Row], restart: Iterable[Row]) -> dict[str, str]:
    """The replicas as a person calls them, by their labels: controller 2, broker 12 (eu-west/blue),
    or the label. A folder that is named by its node is not named again, but where two are. What the
    rows of a restart call them comes first: a controller may be an observer.
    """
    rows = list(replicas)
    count = Counter(row["node_id"] for row in rows)
    found = {row["replica"]: _name_of(row, count[row["node_id"]] == 1) for row in rows}
    told = called_in(restart)
    return found | {label: told[label] for label in found.keys() & told.keys()}


def _name_of(row: Row, is_alone: bool) -> str:
    label, kind = row["replica"], {"voter": "controller", "observer": "broker"}.get(row["role"])
    if kind is None or row["node_id"] is None:
        return str(label)
    short = f"{kind} {row['node_id']}"
    is_named = label.rsplit("/", 1)[-1] == str(row["node_id"]) and is_alone
    return short if is_named or label == short else f"{short} ({label})"


def status_of(data: PageData, row: Row) -> tuple[str, str]:
    """(severity or `ok`, words): where a replica stands, for one who looks for the odd one."""
    found = [one for one in data.findings if one["replica"] == row["replica"]]
    for severity in ("critical", "warning"):
        those = [one for one in found if one["severity"] == severity]
        if those:
            offsets = [one["offset"] for one in those if one["offset"] is not None]
            place = f", the first at offset {min(offsets):,}" if offsets else ""
            return severity, f"{len(those)} finding{'s' if len(those) > 1 else ''}{place}"
    behind = offsets_behind(row, data.replicas)
    if behind is None:
        return "ok", "of another cluster" if row["committed_lower"] is None else "not read"
    if not behind:
        return "ok", "no log goes further"
    return "ok", f"{counted(behind, 'offset')} behind the log that goes furthest"


def offsets_behind(row: Row, replicas: Iterable[Row]) -> int | None:
    """How far a log ends before the one of its quorum that goes furthest; None for one that could not
    be read, and for a copy of another cluster, of which nothing is known to be committed.
    """
    if row["committed_lower"] is None or row["log_end_offset"] is None:
        return None
    ends = [one["log_end_offset"] or 0 for one in replicas if one["committed_lower"] is not None]
    return int(max(ends) - row["log_end_offset"])
