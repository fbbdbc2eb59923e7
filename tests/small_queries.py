"""Spark's settings for queries over tables of a few rows, where preparing costs more than reading."""

SETTINGS = {
    # Code made for each query, and plans made anew between its stages, pay after seconds only.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
JVM = (
    "-XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=256m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""The second compiler pays only after minutes; without it tiny jobs cost half. Room for classes and for
compiled code keeps the JVM from looking for what it may forget, and Spark's own jars need no proof
that they are well-formed: together a seventh less.
"""
LAUNCHED = {"spark.driver.extraJavaOptions": JVM, "spark.executor.extraJavaOptions": JVM}
"""The same for the JVMs of a program that starts its own, with Spark's own way of running queries."""


def submitted(settings: dict[str, str]) -> str:
    """PYSPARK_SUBMIT_ARGS that have a program's JVM start with settings."""
    words = [f"--conf '{name}={value}'" for name, value in settings.items()]
    return " ".join([*words, "pyspark-shell"])
