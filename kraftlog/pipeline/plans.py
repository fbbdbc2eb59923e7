"""Which function of `simulate` fills which table of plans."""

from kraftlog.pipeline.derive import Derived

PLANS: tuple[Derived, ...] = ()
