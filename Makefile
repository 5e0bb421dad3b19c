# `make serve` and `make test` do all the set-up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the server needs, and with that what the tests and the benchmarks need.
SERVES := $(VENV)/.serves
READY := $(VENV)/.ready
# Three at a time, on two cores: many tests wait for servers and disks. A file's tests share what they start.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile
# Crash states that `make crash` looks at.
STATES ?= 1000000
# How long `make chaos` kills and checks.
CHAOS_SECONDS ?= 300
# The same for `make kestrel-chaos`.
KESTREL_CHAOS_SECONDS ?= 120
# The same for `make tier-chaos`.
TIER_CHAOS_SECONDS ?= 120
# Which benchmark to run; empty runs all of them.
PART ?=

.PHONY: serve test check bench spark-jars crash chaos tier-chaos kestrel-chaos clean

$(SERVES): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Barbicel needs Python 3.11 or newer, set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[examples]'
	touch $@

$(READY): $(SERVES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

serve: $(SERVES)
	$(BIN)/barbicel serve

test: $(READY)
	$(PYTEST)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST)

bench: $(READY)
	$(BIN)/python -m bench $(PART)

spark-jars: $(READY)
	$(BIN)/barbicel pipeline jars

crash: $(READY)
	$(BIN)/python -m tests.crash $(STATES)

chaos: $(READY)
	$(BIN)/python -m tests.chaos $(CHAOS_SECONDS)

tier-chaos: $(READY)
	$(BIN)/python -m tests.chaos $(TIER_CHAOS_SECONDS) 0 tiered

kestrel-chaos: $(READY)
	$(BIN)/python -m tests.kestrel_clients.chaos --seconds $(KESTREL_CHAOS_SECONDS)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/out
