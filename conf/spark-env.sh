# Sourced by spark-submit where SPARK_CONF_DIR names this folder.
# Java says on stderr that Spark uses an incubator module, before anything of ours runs and whatever
# a log4j2.properties says; nobody can act upon that. All else passes.
exec 2> >(trap '' INT; exec grep --line-buffered --invert-match '^WARNING: Using incubator modules' >&2)
