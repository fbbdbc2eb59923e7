"""New versions of partitions as columns, as a rule of the state is asked of them.

In: lists of brokers and numbers as the fold has them, and at which events a version begins. Out:
columns under Kafka's JSON names, an entry per version, with those of the version before. A rule
flags what it may tell of; nothing wrong may be missed, and what is only unusual may be flagged too,
as every flagged partition goes to the definition.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kraftlog.native.folding import HeldLists
from kraftlog.native.kernel import Places

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NewVersions:
    """The versions that begin at the events `at`. `has_before`: a version of the same partition
    ends there. `lists` has their lists of brokers, and `numbers` what holds at every event.
    """

    at: Longs
    has_before: Flags
    lists: Mapping[str, HeldLists]
    numbers: Mapping[str, Places]

    def number(self, name: str) -> Places:
        """A number of each version."""
        return self.numbers[name].take(self.at)

    def number_before(self, name: str) -> Places:
        """The same of the version before; without a meaning where there is none."""
        return self.numbers[name].take(self.at - 1)


Suspects = Callable[[NewVersions], Flags]
"""Which versions a rule may have something to say of."""


def every_version(versions: NewVersions) -> Flags:
    """All of them: right for every rule, and as slow as the definition."""
    return np.ones(len(versions.at), np.bool_)
