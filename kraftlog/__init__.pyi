from kraftlog.api import *  # noqa: F403  (its `__all__`)

__version__: str
