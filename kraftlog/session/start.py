"""Starts Spark with Delta, or joins the Spark that is there.

What enters: an application name, settings that win over the packaged ones, a master. What leaves:
a `SparkSession` that reads and writes Delta tables, a `SparkContext` for tasks, which is there
seconds earlier (or a remote session), or a `PlatformError`. Runs on the driver only;
nothing here is pickled. Spark is imported inside the functions, because `make setup` asks this room
for Java before anything is installed.
"""

import os
import socket
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from kraftlog.errors import PlatformError
from kraftlog.extras import let_in, require
from kraftlog.session.java import check_java
from kraftlog.session.spark_settings import (
    delta_coordinates,
    jar_digests,
    jars_folder,
    launch_settings,
    packaged_settings,
)

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

DELTA_CLASS = "io.delta.sql.DeltaSparkSessionExtension"
# These only count before the JVM starts; under spark-submit it already runs.
LAUNCH_ONLY = ("spark.driver.", "spark.jars", "spark.master")
# Set in every session, whoever started it.
ANSWERS_DEPEND_ON = ("spark.sql.session.timeZone", "spark.sql.python.filterPushdown.enabled")
_SAFE_PATH = "PYTHONSAFEPATH"
_WORKERS_SAFE_PATH = f"spark.executorEnv.{_SAFE_PATH}"
REMOTE = "sc://"
_PATIENCE = 5.0
# What the JVM prints at every start, before or beside its logging, and nobody can act upon.
START_NOISE = (
    b"WARNING: Using incubator modules",
    b"Setting default log level",
    b"To adjust logging level",
    b"Setting Spark log level",
)


def spark_session(
    app_name: str,
    *,
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    lake: str | None = None,
) -> "SparkSession":
    """The running session, spark-submit's, or a new one; `conf` wins over everything else. With a
    lake, each of its tables is a view, as the newest whole run has left it; a new session reads and
    writes S3 where the lake lies there.
    """
    session = _session(app_name, dict(conf or {}), master, (lake or "").startswith("s3://"))
    if lake is not None:
        from kraftlog.session.views import lake_views

        lake_views(session, lake)
    return session


def _session(
    app_name: str, given: dict[str, str], master: str | None, with_s3a: bool
) -> "SparkSession":
    running = _running()
    if running is not None:
        return _adjusted(running, given)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _joined(app_name, given)
    _new_context(app_name, given, master, with_s3a=with_s3a)
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def spark_for_tasks(app_name: str, *, master: str | None = None) -> "SparkContext | SparkSession":
    """The running Spark, spark-submit's, or a new one, for tasks alone: what a session builds for
    SQL takes seconds, and tasks need no Delta. Where it is remote (Spark Connect), its session.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        return SparkContext._active_spark_context
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        conf = SparkConf().setAppName(app_name)
        conf.setIfMissing(_WORKERS_SAFE_PATH, packaged_settings()[_WORKERS_SAFE_PATH])
        return SparkContext.getOrCreate(conf)
    address = master or os.environ.get("SPARK_REMOTE", "")
    if address.startswith(REMOTE) or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        return _remote(app_name, address)
    return _new_context(app_name, {}, master, sql=False)


def _remote(app_name: str, address: str) -> "SparkSession":
    """The session of this program with a remote Spark, or a new one."""
    require("connect")
    let_in("pandas")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if address.startswith(REMOTE):
        # Spark's own client asks for ten minutes, in silence, before it gives up.
        place = urlsplit(address)
        try:
            socket.create_connection((place.hostname, place.port or 15002), _PATIENCE).close()
        except OSError as error:
            why = error.strerror or error
            raise PlatformError(f"no Spark answers at {address} ({why}): is it started?") from error
        builder = builder.remote(address)
    return builder.getOrCreate()


def _new_context(
    app_name: str,
    given: dict[str, str],
    master: str | None,
    *,
    with_s3a: bool = False,
    sql: bool = True,
) -> "SparkContext":
    settings = launch_settings(jars_folder(), with_s3a=with_s3a, sql=sql) | given
    settings["spark.app.name"] = app_name
    settings["spark.master"] = master or settings.get("spark.master", "local[*]")
    return launched(settings)


def launched(settings: Mapping[str, str]) -> "SparkContext":
    """Spark in a new JVM; without its start-up noise, and with everything else it says."""
    check_java()
    from pyspark import SparkConf, SparkContext

    if settings["spark.master"].startswith("local"):
        _stay_on_this_machine()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # A JVM outlives the session that was stopped in it, and a process can have only one.
    gateway = SparkContext._gateway or _launch_jvm(conf)
    return SparkContext(conf=conf, gateway=gateway)


def _launch_jvm(conf: "SparkConf") -> Any:
    """py4j's gateway to a new JVM, what it says on stderr being passed on without its noise."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    read_end, write_end = os.pipe()
    speech = threading.Thread(target=_pass_on, args=(os.fdopen(read_end, "rb"),), daemon=True)
    speech.start()
    kwargs = {"stderr": write_end}
    inherited = os.environ.get(_SAFE_PATH)
    # For the worker that looks up data sources too, which gets nothing but the JVM's environment.
    os.environ[_SAFE_PATH] = packaged_settings()[_WORKERS_SAFE_PATH]
    try:
        return launch_gateway(conf, popen_kwargs=kwargs)  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        reason = "Spark's JVM ended while it was starting; what it said is the reason"
        raise PlatformError(reason) from error
    finally:
        os.close(write_end)
        os.environ.pop(_SAFE_PATH)
        if inherited is not None:
            os.environ[_SAFE_PATH] = inherited


def _stay_on_this_machine() -> None:
    """Workers run this very interpreter and this very Spark, and talk by the loopback address."""
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ[variable] = sys.executable
    os.environ.pop("SPARK_HOME", None)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _pass_on(speech: BinaryIO) -> None:
    """Copy what the JVM says to stderr, line by line, until it ends."""
    with speech:
        for line in speech:
            if not line.startswith(START_NOISE):
                os.write(2, line)


def _joined(app_name: str, given: Mapping[str, str]) -> "SparkSession":
    """The session of a program that spark-submit started: its settings win over our defaults."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # Without this connection to the JVM, SparkConf does not know what spark-submit was given.
    SparkContext._ensure_initialized()
    submitted = SparkConf()
    missing = {
        key: value for key, value in packaged_settings().items() if not submitted.contains(key)
    }
    settings: dict[str, bool | float | int | str | None] = {
        key: value
        for key, value in (missing | dict(given)).items()
        if not key.startswith(LAUNCH_ONLY)
    }
    session = SparkSession.builder.appName(app_name).config(map=settings).getOrCreate()
    _require_delta(session)
    return session


def _require_delta(session: "SparkSession") -> None:
    """Without its jars, Delta's absence shows only at the first table, as an unknown format."""
    from py4j.protocol import Py4JError

    # py4j finds Java's names while it runs; no type says them.
    jvm: Any = session.sparkContext._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(DELTA_CLASS, True, False)
    except Py4JError as error:
        raise PlatformError(
            f"this Spark has no Delta; start it with spark-submit --packages {delta_coordinates()}, or with --jars {','.join(jar_digests())}"
        ) from error


def _running() -> "SparkSession | None":
    """The session of this process, also when another thread started it; or a Connect session."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    return SparkSession.getActiveSession()


def _adjusted(session: "SparkSession", given: Mapping[str, str]) -> "SparkSession":
    """A running session with what answers depend upon; sizes stay as its owner chose them."""
    packaged = packaged_settings()
    wanted = {key: packaged[key] for key in ANSWERS_DEPEND_ON} | dict(given)
    for key, value in wanted.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session
