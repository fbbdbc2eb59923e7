"""The table of damages to a healthy quorum, each with the finding that it must give.

`fault` declares one; the tests of `test_audit_checks` run them all.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kraftlog.log.segment import Limits
from tests.unit.audit_logs import LIMITS, START_MS, Batch, Node, healthy_log

LATER = START_MS + 20_000
Damage = Callable[[list[Node]], object]


@dataclass(frozen=True)
class Fault:
    """A damage, the finding that it must give, and the other checks of which it must give a
    critical one (`also`; no further critical check may fail).

    `sound` does what is nearest to the damage and no damage: the check must then hold. Without it
    the untouched quorum is the twin.
    """

    check: str
    severity: str
    damage: Damage
    replica: str | None = None
    offset: int | None = None
    position: int | None = None
    says: str = ""
    also: frozenset[str] = frozenset()
    sound: Damage | None = None
    limits: Limits = LIMITS

    @property
    def critical(self) -> frozenset[str]:
        """The checks with critical findings that the damage gives."""
        return self.also | ({self.check} if self.severity == "critical" else set())


FAULTS: list[Fault] = []


def fault(
    check: str,
    severity: str,
    replica: str | None = None,
    offset: int | None = None,
    position: int | None = None,
    says: str = "",
    also: str = "",
    sound: Damage | None = None,
    limits: Limits = LIMITS,
) -> Callable[[Damage], Damage]:
    """Declare a damage; `also` names checks, with blanks between them."""

    def register(damage: Damage) -> Damage:
        FAULTS.append(
            Fault(
                check, severity, damage, replica, offset, position, says,
                frozenset(also.split()), sound, limits,
            )
        )  # fmt: skip
        return damage

    return register


def everywhere(nodes: list[Node], *values: bytes, epoch: int = 2, ms: int = LATER) -> None:
    """Append one batch to all logs."""
    for node in nodes:
        node.append(Batch(12, epoch, values, None, ms))


def appended(*values: bytes) -> Damage:
    """The same as a damage, or as its sound twin."""
    return lambda nodes: everywhere(nodes, *values)


def _positions() -> dict[int, int]:
    at, result = {True: 0, False: 0}, {}
    for one in healthy_log():
        result[one.base] = at[one.base < 6]
        at[one.base < 6] += len(one.raw())
    return result


AT = _positions()
"""Byte place of each batch of the healthy log in its segment."""
END_POSITION = AT[11] + len(healthy_log()[-1].raw())
