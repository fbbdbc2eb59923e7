"""The door to Great Expectations: quiet, without a word to its makers, and in memory. Its own pages
load scripts of others from the network, so that none are written: ours tell the results.

Out: a context. Every module that needs Great Expectations takes it from here, so that the switch
below is set before its first import.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Great Expectations reads this once, when it is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.datasource.fluent.pandas_datasource import PandasDatasource
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.row_conditions import Column

__all__ = ["Column", "gx", "made_once", "new_context", "new_source"]


def new_context() -> Any:
    """A context that keeps everything in memory."""
    config = DataContextConfig(
        # Its own default is a site in a temporary folder.
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={},
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    return gx.get_context(project_config=config, mode="ephemeral")


def new_source(name: str) -> Any:
    """A source of pandas frames that no context knows yet."""
    return PandasDatasource(name=name)


@contextmanager
def made_once() -> Iterator[None]:
    """Have each expectation make its configuration once meanwhile: Great Expectations asks for it
    anew with each of its arguments, some 90 times for each contract, which took a third of judging.
    """
    kind: Any = Expectation
    making = kind.configuration
    made: dict[int, tuple[Any, Any]] = {}

    def configuration(self: Any) -> Any:
        # The expectation is kept too, so that its number stays its own.
        if id(self) not in made:
            made[id(self)] = self, making.fget(self)
        return made[id(self)][1]

    kind.configuration = property(configuration)
    try:
        yield
    finally:
        kind.configuration = making
