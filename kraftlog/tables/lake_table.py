"""A Delta table that remembers what its log says of those who have written it.

In: a table's path. Out: the same answers as delta-rs' own, which reads the whole log for each of
them, commit by commit.
"""

from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable


class LakeTable(DeltaTable):
    """One table of a lake."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._told: dict[str, tuple[int, int | None]] = {}

    def transaction_version(self, app_id: str) -> int | None:
        """The newest number that an application has committed, read once per version of the table."""
        version = self.version()
        if app_id not in self._told or self._told[app_id][0] != version:
            self._told[app_id] = version, super().transaction_version(app_id)
        return self._told[app_id][1]

    def take_in(self, numbers: Mapping[str, int]) -> None:
        """Go on to the commit that was just made onto this version, with the numbers of some
        applications.
        """
        version = self.version() + 1
        self.update_incremental()
        if self.version() == version:
            self._told |= {one: (version, number) for one, number in numbers.items()}
