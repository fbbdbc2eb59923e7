"""A run every hour, for Airflow 3: put this file into its folder of DAGs.

The task `run` fails on exit code 1 (findings at or above --fail-on) and on 2 (the run could not do
its work), and the DAG's run with it; its log holds what was found. `upkeep` is a teardown: it comes
after each run, and its own failure is the task's alone. What then tells people is Airflow's:
`email_on_failure`, or a callback of yours.
"""

from datetime import datetime, timedelta

from airflow.sdk import dag, task, teardown

KRAFTLOG = "/opt/kraftlog/bin/kraftlog"


@dag(
    schedule="15 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # One run at a time writes a lake.
    max_active_runs=1,
    tags=["kafka", "audit"],
)
def kraftlog() -> None:
    @task.bash(execution_timeout=timedelta(minutes=50))
    def run() -> str:
        return (
            f"{KRAFTLOG} run --input /audit/replicas --lake /audit/lake --fail-on warning"
            " --metrics-file /var/lib/node_exporter/kraftlog.prom"
        )

    # A DAG's run is as its last task is, unless that is a teardown.
    @teardown
    @task.bash
    def upkeep() -> str:
        return f"{KRAFTLOG} lake check --lake /audit/lake"

    run() >> upkeep()


kraftlog()
