"""The options of `conf/kraftlog.toml` as arguments of a command line. Imports no Spark."""

import argparse

from kraftlog.config import option_names


def add_options(parser: argparse.ArgumentParser, *, but: frozenset[str] = frozenset()) -> None:
    """One argument per option of `conf/kraftlog.toml`."""
    for option in option_names():
        if option in but:
            continue
        flag = "--" + option.replace("_", "-")
        if option == "input":
            parser.add_argument(flag, nargs="+", metavar="ROOT", help="folders with replicas")
        elif option == "reveal_secrets":
            parser.add_argument(flag, action="store_const", const=True, help="do not mask secrets")
        else:
            parser.add_argument(flag, metavar="VALUE", help="see conf/kraftlog.toml")
