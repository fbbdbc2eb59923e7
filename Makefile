# Everything that a fresh clone needs. A machine brings Python 3.11 or newer and Java 17 or 21;
# `make test-kafka` also wants Maven. Type `make help`.

PYTHON ?= python3
BIN := .venv/bin
# Great Expectations reports its use to its makers unless told not to.
export GX_ANALYTICS_ENABLED := false
# Compiled modules are kept: hundreds of processes of the tests, and each of their workers, would
# compile all anew otherwise. `make clean` removes them.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup run test pytest test-kafka kafka-jars test-s3 s3a-jars test-stores test-cluster test-yarn test-browser test-schedules matrix fuzz soak lint type check mutants bench bench-large docs notebook wheel lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.stamp ## Make .venv with the locked packages and fetch Delta's two jars (once)

# The stamp makes setup happen once: as long as none of these files changes, no other target
# installs or resolves anything. Java is checked first, before minutes of downloads. PySpark comes
# as a source archive of jars, which pip would compress once more to unpack them at once. Of all the
# modules, a run over the example compiles those that are used, and shows that they work: who may
# not write there later, or is told not to, would compile them at each start.
.venv/.stamp: pyproject.toml requirements-build.lock requirements.lock conf/jars.sha256 conf/spark-defaults.conf \
    kraftlog/native/kernel.c kraftlog/native/folding.c kraftlog/native/sorting.c \
    kraftlog/native/types.h kraftlog/native/build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kraftlog needs \
	Python 3.11 or newer; name one with: make setup PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -m kraftlog.session check-java
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	    -r requirements-build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-compile \
	    --no-build-isolation --use-pep517 -r requirements.lock \
	    --config-settings=--build-option=--compression=stored
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --no-build-isolation --editable .
	$(BIN)/python -m kraftlog.session fetch-jars
	@$(BIN)/kraftlog run --input examples/quorum --lake .venv/lake > .venv/run.log 2>&1 \
	    && $(BIN)/python -c 'import delta, duckdb, kafka' || { cat .venv/run.log >&2; exit 2; }
	@rm -r .venv/lake .venv/run.log
	@touch $@

run: .venv/.stamp ## Audit the sample quorum into .lake
	$(BIN)/kraftlog run --input examples/quorum --lake .lake

test: lint ## Lint, types and every test that needs only Python and Java
	@$(MAKE) --no-print-directory --jobs 2 type pytest

# Types are looked at by one core meanwhile: some tests wait, for a lease, a stream, a JVM.
pytest: .venv/.stamp
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations 12

# One worker more than cores: nodes wait for elections and for each other (303 → 249 s on two cores).
test-kafka: kafka-jars ## The tests against Apache Kafka's own jars (needs Maven)
	$(BIN)/python -m pytest -m kafka tests/kafka -n 3 --dist loadfile --durations 5

test-s3: s3a-jars ## Runs and readers on an object store: a real S3 protocol server
	$(BIN)/python -m pytest -m s3 tests/s3 --durations 5

test-stores: .venv/.stamp ## Azure and GCS by their emulators (needs npm and Go)
	npm install --silent --no-save --prefix .emulators azurite@3.37.0
	cd tests/stores/google && go build -o "$(CURDIR)/.emulators/google" .
	$(BIN)/python -m pytest -m stores

test-cluster: .venv/.stamp ## The pipeline on a Spark cluster of two workers, and by Spark Connect
	$(BIN)/python -m pytest -m cluster tests/cluster --durations 5

test-yarn: .venv/.stamp ## The pipeline on YARN: Hadoop's own mini cluster (needs Maven)
	mvn -q -B -f tests/cluster/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/.yarn"
	$(BIN)/python -m pytest -m yarn

kafka-jars: .venv/.stamp ## Fetch Kafka's jars, compile what asks them (once; needs Maven)
	$(MAKE) -C tests/java
	$(BIN)/python -m tests.kafka_quorum

s3a-jars: .venv/.stamp ## Fetch the jars that Spark reads a lake on S3 with (once)
	$(BIN)/python -m kraftlog.session fetch-jars s3a

test-browser: .venv/.stamp ## The page in a real browser (needs Chromium or Chrome, see CHROMIUM)
	$(BIN)/python -m pytest -m browser

mutants: .venv/.stamp ## Change the code in one place, see whether a test fails; for hours (ROOM=state)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target .mutants/tools \
	    -r tests/mutants/requirements.txt
	$(BIN)/python -m tests.mutants $(ROOM)

PYTHONS ?= 3.11 3.12 3.13 oldest

matrix: ## The tests without Spark on each Python that is here, and with the oldest pyarrow (PYTHONS=3.13)
	$(PYTHON) tests/matrix.py $(PYTHONS)

test-schedules: .venv/.stamp ## Schedules by Airflow itself, alerts by Prometheus' parser, the image's steps
	$(BIN)/python -m tests.schedules

SECONDS ?= 60

fuzz: .venv/.stamp ## Whole audits of damaged folders, for a minute or for hours (SECONDS=36000)
	$(BIN)/python -m tests.property.test_fuzz $(SECONDS)

soak: kafka-jars ## A real cluster worked on at random, its copies audited (needs Maven; SECONDS=600)
	$(BIN)/python -m tests.soak $(SECONDS)

check: lint type ## Lint and types, without the tests

lint: .venv/.stamp ## ruff: rules and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: .venv/.stamp ## mypy, strict
	$(BIN)/mypy

bench: .venv/.stamp ## Measure against the references; equal answers first, times second
	$(BIN)/python -m tests.benchmark
	$(BIN)/python -m tests.benchmark.pipeline --size 100M --case audit --case three

bench-large: .venv/.stamp ## The same for logs of 1 GB; the first run writes them
	$(BIN)/python -m tests.benchmark --size 1G --runs 1 --markdown
	$(BIN)/python -m tests.benchmark.pipeline --size 1G

docs: .venv/.stamp ## Write the reference pages anew from what the code declares
	$(BIN)/python -m kraftlog.reference

notebook: run ## Run the notebook in examples/ and store its answers and plots
	$(BIN)/python -m tests.notebook

wheel: .venv/.stamp ## Build the wheel into dist/ (no network)
	$(BIN)/python -m hatchling build --target wheel --directory dist

lock: ## Renew both lock files from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	    --group build --output-file requirements-build.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	    --extra dev pyproject.toml --output-file requirements.lock

clean: ## Remove everything that git ignores: environment, jars, lake, caches
	rm -rf .venv .jars .lake .matrix .mutants .schedules .emulators .yarn dist build
	rm -f kraftlog/native/kernel.*-*
	rm -rf spark-warehouse metastore_db derby.log environment environment.tar.gz kraftlog.zip
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@if [ -f tests/java/Makefile ]; then $(MAKE) -C tests/java clean; fi
