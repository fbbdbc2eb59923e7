"""`plan …`: what Kafka would do next with these replicas. None of the plans needs Spark.

In: parsed arguments. Out: rows on stdout, those of the plan first, then one with `fault` for each
range that could not be read. `cli` calls `add_commands`; a plan of another module joins through its
own `add_plan` in `FAMILIES`.
"""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kraftlog.commands import plan_failover, plan_join, plan_replicas, plan_restart, plan_transfer
from kraftlog.commands.plan_input import add_dialect, add_input, fault_rows, options_of, read_quorum
from kraftlog.config import Options
from kraftlog.errors import InputError
from kraftlog.quorum.model import Quorum
from kraftlog.report.rows import print_rows
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.lost import counted_in_files
from kraftlog.simulate.rows import (
    boot_rows,
    election_rows,
    fetch_rows,
    likely_leaders,
    truncation_rows,
)
from kraftlog.source.settings import limits_of

Row = dict[str, Any]
AddPlan = Callable[["argparse._SubParsersAction[Any]"], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan of a quorum. `decodes` is True where it asks whether every record can be decoded;
    the others look at batch headers and control records only.
    """

    name: str
    text: str
    rows: Callable[[Quorum, argparse.Namespace, Options], Iterable[Row]]
    decodes: bool = False
    has_dialect: bool = False
    has_all: bool = False


def _elections(quorum: Quorum, chosen: argparse.Namespace, _: Options) -> Iterable[Row]:
    if quorum.voter_set is None:
        raise InputError(
            "no voters are known: no KRaftVoters or LeaderChange record, quorum-state or "
            "controller.quorum.voters names them"
        )
    return election_rows(quorum, Dialect(chosen.dialect))


def _truncations(quorum: Quorum, chosen: argparse.Namespace, options: Options) -> Iterable[Row]:
    leaders = None if chosen.all else likely_leaders(quorum)
    return truncation_rows(quorum, counted_in_files(limits_of(options)), leaders)


PLANS = (
    Plan(
        "truncation",
        "what each replica would cut off its log, or lose to a snapshot, if another one led",
        _truncations,
        has_all=True,
    ),
    Plan(
        "fetch",
        "what each replica, as leader, would answer to the next fetch of each other",
        lambda quorum, chosen, _: fetch_rows(quorum, Dialect(chosen.dialect)),
        has_dialect=True,
    ),
    Plan(
        "boot",
        "whether each node starts, with which snapshot, and what it throws away",
        lambda quorum, _, __: boot_rows(quorum),
        decodes=True,
    ),
    Plan(
        "election",
        "which voter can win with whose votes, and what it would lack",
        _elections,
        decodes=True,
        has_dialect=True,
    ),
)

FAMILIES: tuple[AddPlan, ...] = (
    plan_restart.add_plan,
    plan_join.add_plan,
    plan_failover.add_plan,
    plan_transfer.add_plan,
    plan_replicas.add_plan,
)
"""`add_plan` of other modules, each of which adds one plan or more."""


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `plan`."""
    parser = commands.add_parser(
        "plan",
        help="what Kafka would do next",
        description="What Kafka would do next with these replicas, by its own rules.",
    )
    plans = parser.add_subparsers(required=True, metavar="PLAN")
    for plan in PLANS:
        _add(plans, plan)
    for add_plan in FAMILIES:
        add_plan(plans)


def _add(plans: "argparse._SubParsersAction[Any]", plan: Plan) -> None:
    parser = plans.add_parser(plan.name, help=plan.text, description=f"{_first_upper(plan.text)}.")
    add_input(parser)
    if plan.has_dialect:
        add_dialect(parser)
    if plan.has_all:
        parser.add_argument(
            "--all",
            action="store_true",
            help="every replica as leader, brokers too; by default the voter that would be elected",
        )
    parser.set_defaults(command=lambda chosen: _run(plan, chosen))


def _run(plan: Plan, chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = read_quorum(options, decodes=plan.decodes)
    rows = list(plan.rows(quorum, chosen, options))
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
