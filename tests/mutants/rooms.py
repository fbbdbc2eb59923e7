"""Which code is changed, and which tests may see it: nothing but declarations."""

ROOMS = {
    "audit": ("kraftlog/audit/*.py",),
    "quorum": ("kraftlog/quorum/*.py",),
    "state": ("kraftlog/state/*.py",),
    "simulate": ("kraftlog/simulate/*.py",),
    "metrics": ("kraftlog/metrics/*.py",),
}
TESTS = ("tests/unit", "tests/property", "tests/golden")
IGNORED = (
    "choice", "codecs", "config", "contracts", "crc", "disks", "engines", "extras", "failures",
    "fuzz", "imports", "lake", "lake_key", "lease", "measures", "names", "object_store", "pull",
    "pull_security", "pushdown", "reference", "scans", "segment", "session", "slices",
    "source_stream", "spec", "stores", "terminal", "upkeep", "wire", "writing",
)  # fmt: skip
"""Files of tests that start Spark, servers or processes, or look at other rooms alone."""
COPIED = ("kraftlog", "tests", "schemas", "conf", "jobs", "examples", "README.md", "CHANGELOG.md",
          "pyproject.toml", "pyspark_kraftlog.py")  # fmt: skip
UNCOPIED = ("__pycache__", "java", ".data")
"""Kafka's jars and the inputs of benchmarks are gigabytes, and no test that is asked needs them."""
LARGE = ("isolated", "steady", "lagging", "upgraded", "offline", "ghosts", "unregistered", "voter")
OF_ALL = ("every_rule_has", "every_name_of", "fuzz")
CHOSEN = f"not ({' or '.join(OF_ALL)}) and not (golden and ({' or '.join(LARGE)}))"
"""Of the tests: not those that go through all faults (each alone would audit them all), and of the
golden quorums the small ones, each of which is read in a second.
"""
