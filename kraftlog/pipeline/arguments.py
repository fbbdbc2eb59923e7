"""The options of `conf/kraftlog.toml` as arguments of a command line, and who reads such a line.
Imports no Spark.
"""

import argparse
import re
from typing import NoReturn

from kraftlog.config import Options, load_options, option_names, option_texts, switches
from kraftlog.failures import FAILED
from kraftlog.plain import tell

# A unit by itself is no sentence: "Bytes. A segment larger than this …"
_FIRST_SENTENCE = re.compile(r"(?:Bytes\. )?(.*?)\.(?= |$)")


class OptionParser(argparse.ArgumentParser):
    """One sentence instead of the whole usage when arguments are wrong."""

    def error(self, message: str) -> NoReturn:
        tell(f"{message}{self._taken(message)}; see '{self.prog} --help'")
        raise SystemExit(FAILED)

    def _taken(self, message: str) -> str:
        """Who may have taken what is missed: an option that takes all words up to the next one."""
        lacks = "the following arguments are required: "
        wanted = message.removeprefix(lacks).split(", ") if message.startswith(lacks) else ()
        names = {name for one in self._actions if one.nargs == "+" for name in one.option_strings}
        if not names or not wanted or any(one.startswith("-") for one in wanted):
            return ""
        return f" (write it before {' and '.join(sorted(names))}, which takes all words behind it)"


def add_options(parser: argparse.ArgumentParser, *, only: frozenset[str] | None = None) -> None:
    """One argument per option of `conf/kraftlog.toml`, or of some of them; its help is the first
    sentence there.
    """
    texts, are_switches = option_texts(), switches()
    for option in option_names():
        if only is not None and option not in only:
            continue
        flag = "--" + option.replace("_", "-")
        if option == "input":
            parser.add_argument(
                flag, nargs="+", action="extend", metavar="ROOT", help="folders with replicas"
            )
            continue
        told = _FIRST_SENTENCE.match(texts[option])
        text = _lower_first(told[1] if told else "")
        if option in are_switches:
            text = text.removeprefix("true ")
            parser.add_argument(flag, action="store_const", const=True, help=text)
        else:
            parser.add_argument(flag, metavar="VALUE", help=text)


def options_in(chosen: argparse.Namespace) -> Options:
    """The options among parsed arguments, and those of the file that `conf` names."""
    given = vars(chosen)
    names = [name for name in option_names() if name in given]
    return load_options({name: given[name] for name in names}, chosen.conf)


def _lower_first(sentence: str) -> str:
    """As the other arguments begin; argparse takes % for its own."""
    return (sentence[:1].lower() + sentence[1:]).replace("%", "%%")
