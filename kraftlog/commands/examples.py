"""Examples for the `--help` of every command that declares none itself.

In: the parser of the whole command line. Out: the same, with examples at the end of each help.
"""

import argparse
from collections.abc import Iterator

EXAMPLES = {
    "run": (
        "kraftlog run --input replicas/ --lake lake/",
        "kraftlog run --input replicas/ --lake lake/ --fail-on warning",
        "kraftlog run --bootstrap-controller c1:9093 --out replicas/live --lake live-lake/",
    ),
    "audit": (
        "kraftlog audit --input replicas/",
        "kraftlog audit --input replicas/ --report report.html",
        "kraftlog audit --input replicas/ --format json | jq 'select(.severity == \"critical\")'",
        "kraftlog audit --each quorum-a/ quorum-b/",
    ),
    "replicas": ("kraftlog replicas --input replicas/",),
    "batches": (
        "kraftlog batches replicas/1",
        "kraftlog batches replicas/1 --format json | jq 'select(.crc_valid == false)'",
    ),
    "records": (
        "kraftlog records replicas/1 --type TOPIC_RECORD",
        "kraftlog records replicas/1 --from-offset 170 --to-offset 180",
        "kraftlog records replicas/1 --since 2026-11-21T12:00:00Z --key my-topic",
    ),
    "state": (
        "kraftlog state replicas/1 --at 176",
        "kraftlog state replicas/1 --type TOPIC_RECORD --format json",
    ),
    "diff": ("kraftlog diff replicas/1@176 replicas/2@243",),
    "checkpoint": ("kraftlog checkpoint replicas/1 --at 176 --out restored/",),
    "plan": (
        "kraftlog plan restart --input replicas/",
        "kraftlog plan election --input replicas/ --format json",
    ),
    "plan restart": (
        "kraftlog plan restart --input replicas/",
        "kraftlog plan restart --input replicas/ --format json",
    ),
    "plan truncation": (
        "kraftlog plan truncation --input replicas/",
        "kraftlog plan truncation --input replicas/ --all",
    ),
    "plan fetch": ("kraftlog plan fetch --input replicas/",),
    "plan boot": ("kraftlog plan boot --input replicas/",),
    "plan election": ("kraftlog plan election --input replicas/",),
    "plan join": (
        "kraftlog plan join 2 --input replicas/",
        "kraftlog plan join new --input replicas/ --bandwidth 1000000 --latency 20",
    ),
    "plan failover": ("kraftlog plan failover --input replicas/",),
    "plan snapshot": ("kraftlog plan snapshot --input replicas/ --bandwidth 1000000",),
    "plan replicas": ("kraftlog plan replicas --input replicas/ --selector rack-aware",),
    "sql": (
        'kraftlog sql "SHOW TABLES" --lake lake/',
        'kraftlog sql "SELECT severity, replica, message FROM findings" --lake lake/ --format json',
    ),
    "manual": ("kraftlog manual | man -l -",),
    "lake": ("kraftlog lake check --lake lake/",),
    "lake check": ("kraftlog lake check --lake lake/ --verify",),
    "lake compact": ("kraftlog lake compact --lake lake/",),
    "lake expire": ("kraftlog lake expire --lake lake/ --keep-runs 1",),
}
_HEADING = "examples:\n"


class _Formatter(argparse.HelpFormatter):
    """Wraps descriptions and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_HEADING) else super()._fill_text(text, width, indent)


def add_examples(parser: argparse.ArgumentParser) -> None:
    """Give every command that has no epilog its examples."""
    for name, command in commands_of(parser):
        if command.epilog is None and name in EXAMPLES:
            command.epilog = _HEADING + "".join(f"  {line}\n" for line in EXAMPLES[name])
            if command.formatter_class is argparse.HelpFormatter:
                command.formatter_class = _Formatter


def commands_of(
    parser: argparse.ArgumentParser, before: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command and command of a command, by what is typed."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                typed = f"{before} {name}".strip()
                yield typed, command
                yield from commands_of(command, typed)
