"""`plan replicas`: from which replicas consumers of each rack read, and what the rest costs between
zones (KIP-392); and whether a metadata replica would serve an offset, how far apart replicas are,
and how late a high watermark comes.

In: parsed arguments. Out: rows on stdout, notes on stderr. No Spark.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

from kraftlog.commands.command import DESCRIBE_HELP, add_format, add_roots, command, options_of
from kraftlog.commands.faults import print_with_faults
from kraftlog.commands.values import number_from
from kraftlog.config import Options
from kraftlog.errors import InputError, UsageError
from kraftlog.plain import counted, tell
from kraftlog.quorum.epochs import vector_of
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.out_of_range import (
    Consumer,
    Offsets,
    Policy,
    case_of,
    consumer_epoch_end,
    fetch_error,
    next_step,
)
from kraftlog.simulate.plan_rows import Plans
from kraftlog.simulate.replica_selection import (
    Cluster,
    cluster_of,
    partition_rows,
    rack_rows,
    select_all,
)
from kraftlog.simulate.selectors import BUILT_IN, load_selector
from kraftlog.simulate.staleness import MAX_WAIT_MS, staleness_rows, watermark_rows
from kraftlog.simulate.traffic import BY_TOPIC, EVEN, MOST, PRICE_PER_GB, Traffic, evenly, from_file
from kraftlog.source.collected import collected, furthest_image
from kraftlog.source.task_settings import redactor_of

_OTHERS = ("serves", "staleness", "watermark")
_EFFECTS = {
    None: ("at", "selector", "traffic", "bytes_per_day", "price_per_gb", "partitions"),
    "serves": ("reset", "fetched_epoch"),
    "watermark": ("max_wait_ms",),
}
"""The options that have an effect where this is asked (None: of data partitions)."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    add_roots(where)
    where.add_argument("--lake", metavar="FOLDER", help="a lake: the state of its newest run")
    parser.add_argument("--quorum-describe", metavar="FILE", help=DESCRIBE_HELP)
    add_format(parser)
    parser.add_argument("--at", type=int, metavar="OFFSET", help="the state before this offset")
    parser.add_argument(
        "--selector",
        default="rack-aware",
        metavar="NAME",
        help=f"{', '.join(BUILT_IN)}, or module:Class on PYTHONPATH (default: rack-aware)",
    )
    _add_traffic(parser)
    _add_others(parser)


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--traffic",
        default=EVEN,
        metavar="HOW",
        help=f"what is read: {EVEN} (each partition alike), {BY_TOPIC} (each topic alike), or a CSV file with bytes per day",
    )
    parser.add_argument(
        "--bytes-per-day",
        type=_amount,
        metavar="N",
        help="bytes that all consumers read together in a day, to tell bytes and cost of even traffic",
    )
    parser.add_argument(
        "--price-per-gb",
        type=_amount,
        default=PRICE_PER_GB,
        metavar="N",
        help="price of 10^9 bytes between two zones (default: 0.02, a cent on either side)",
    )
    parser.add_argument(
        "--partitions", action="store_true", help="one row per partition and rack of consumers"
    )


def _add_others(parser: argparse.ArgumentParser) -> None:
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--serves",
        type=partial(number_from, 0),
        metavar="OFFSET",
        help="instead: whether each metadata replica would serve this offset, and what its reader then does",
    )
    instead.add_argument(
        "--staleness",
        action="store_true",
        help="instead: how far a reader that goes from one replica to another may fall back",
    )
    instead.add_argument(
        "--watermark",
        action="store_true",
        help="instead: how late followers learn of a new high watermark, by the pace of this log",
    )
    parser.add_argument(
        "--reset",
        choices=[str(one) for one in Policy],
        default=str(Policy.LATEST),
        help="auto.offset.reset of the reader of --serves",
    )
    parser.add_argument(
        "--fetched-epoch",
        type=int,
        metavar="N",
        help="epoch of the record before OFFSET, as the reader knows it (default: the leader's)",
    )
    parser.add_argument(
        "--max-wait-ms",
        type=partial(number_from, 0),
        default=MAX_WAIT_MS,
        metavar="N",
        help="replica.fetch.max.wait.ms of --watermark",
    )


def _amount(text: str) -> float:
    """A number that is not below 0; raises ArgumentTypeError for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount")
    return value


@command(
    "plan replicas",
    "from which replicas consumers of each rack read, with and without follower fetching",
    "From which replicas consumers of each rack read, with and without follower fetching, and what the rest costs between zones.",
    arguments=_arguments,
    examples="""
    kraftlog plan replicas --input replicas/ --bytes-per-day 5e12 --price-per-gb 0.02
    kraftlog plan replicas --lake lake/ --traffic traffic.csv --partitions --format json
    kraftlog plan replicas --input replicas/ --serves 1300 --reset earliest
    kraftlog plan replicas --input replicas/ --staleness
    """,
    note="A traffic file has a first line topic,bytes_per_day and may have the columns partition and rack.",
)
def _run(chosen: argparse.Namespace) -> int:
    _refuse_what_has_no_effect(chosen)
    selector = load_selector(chosen.selector)
    options = options_of(chosen)
    others = _other_rows(chosen)
    quorum = None if others is None and chosen.lake is not None else _quorum(options)
    if others is not None and quorum is not None:
        rows = others(quorum)
    else:
        cluster = _cluster(chosen, options, quorum)
        traffic, price = _traffic(chosen, cluster), chosen.price_per_gb
        if chosen.partitions:
            rows = partition_rows(cluster, selector, traffic, price)
        else:
            rows = rack_rows(select_all(cluster, selector, traffic), traffic, price)
    if quorum is not None:
        return print_with_faults(rows, quorum, chosen.format)
    print_rows(rows, chosen.format)
    return 0


def _refuse_what_has_no_effect(chosen: argparse.Namespace) -> None:
    """Who gives an option expects that the answer goes by it."""
    asked = next((one for one in _OTHERS if getattr(chosen, one) not in (None, False)), None)
    for where, names in _EFFECTS.items():
        for name in names:
            if where != asked and getattr(chosen, name) != chosen.parser.get_default(name):
                why = f"with --{asked}" if where is None else f"without --{where}"
                raise UsageError(f"--{name.replace('_', '-')} has no effect {why}")


def _other_rows(chosen: argparse.Namespace) -> Any:
    """What is asked of the metadata replicas themselves; None where data partitions are meant."""
    if chosen.serves is not None:
        policy = Policy(chosen.reset)
        return lambda quorum: serving_rows(quorum, chosen.serves, policy, chosen.fetched_epoch)
    if chosen.staleness:
        return staleness_rows
    if chosen.watermark:
        return lambda quorum: watermark_rows(quorum, chosen.max_wait_ms)
    return None


def _quorum(options: Options) -> Quorum:
    if options.input:
        return collected(options.input, options)
    from kraftlog.pipeline.run import Run
    from kraftlog.tables.place import lake_at

    return Run(options, lake_at(options.lake or ""), _no_spark).quorum


def _no_spark() -> NoReturn:
    raise AssertionError("a plan needs no Spark")


def _cluster(chosen: argparse.Namespace, options: Options, quorum: Quorum | None) -> Cluster:
    """The state that is asked of."""
    if quorum is None:
        from kraftlog.pipeline.plans import cluster_in
        from kraftlog.tables.place import lake_at

        if chosen.at is not None:
            raise InputError("--at needs the files: a lake is asked of its newest state")
        cluster = cluster_in(lake_at(chosen.lake))
    else:
        image = furthest_image(quorum, redactor_of(options), chosen.at)
        tell(f"the state of {image.replica} at {image.end_offset}")
        cluster = cluster_of(image.state)
    bare = cluster.without_rack
    if bare:  # no consumer can be near to these
        whole = len(bare) == len(cluster.brokers)
        which = "no broker names" if whole else f"brokers {', '.join(map(str, bare))} do not name"
        tell(f"{which} a rack; set broker.rack")
    return cluster


def _traffic(chosen: argparse.Namespace, cluster: Cluster) -> Traffic:
    places = [(one.topic, one.partition) for one in cluster.partitions]
    total: float | None = chosen.bytes_per_day
    if chosen.traffic in (EVEN, BY_TOPIC):
        return evenly(places, cluster.racks, total, by_topic=chosen.traffic == BY_TOPIC)
    traffic, unknown = from_file(chosen.traffic, places, cluster.racks)
    if unknown:
        count = counted(len(unknown), "line")
        tell(f"the traffic file has {count} about what is not there; the first is {unknown[0]}")
    return traffic


def serving_rows(
    quorum: Quorum, offset: int, policy: Policy, fetched_epoch: int | None
) -> Iterator[Row]:
    """The four cases of KIP-392 for each copy of the metadata log, and what a reader does then.
    KRaft itself lets only its leader answer; the high watermark is the lower committed bound where
    it is not given. Of a copy that goes its own way, what it holds from there on is not committed.
    """
    plans, lower, leader = Plans(quorum), quorum.bounds.lower, quorum.newest_log
    vector = vector_of(leader) if leader is not None else None
    epoch = fetched_epoch
    if epoch is None and vector is not None:
        epoch = vector.epoch_at(min(offset, vector.end_offset) - 1)
    for log in quorum.peers:
        end, reach = log.end_offset or 0, plans.committed_reach(log)
        held = Offsets(log.start_offset or 0, end, reach if reach < min(lower, end) else lower)
        row = {
            "replica": log.label,
            "offset": offset,
            "case": str(case_of(held, offset)),
            "error": fetch_error(held, offset, Dialect.ADOPTED),
            "shipped_error": fetch_error(held, offset),
            "log_start_offset": held.log_start,
            "high_watermark": held.high_watermark,
            "log_end_offset": held.log_end,
        }
        told = None
        if vector is not None and epoch is not None:
            told = consumer_epoch_end(vector, epoch, lower)
        consumer = Consumer(offset, epoch, policy)
        step, at = next_step(consumer, held, vector.end_offset if vector else 0, told)
        yield row | {"reader": str(step), "goes_on_from": at}
