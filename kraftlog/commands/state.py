"""`state`, `diff` and `checkpoint`: images of one replica, without Spark."""

import argparse
from typing import Any

from kraftlog import commands_state
from kraftlog.commands.times import time_ms


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the three commands."""
    commands_state.add_commands(commands, time_ms)
