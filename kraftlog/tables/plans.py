"""The tables of plans, declared: what Kafka would do next, one set of rows per run."""

from kraftlog.tables.spec import TableSpec

PLANS: tuple[TableSpec, ...] = ()
