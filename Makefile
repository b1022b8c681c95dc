# Every target sets up its own virtual environment on first use. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Nodes that are started by the hundred, in tests and benchmarks, shall not compile all their modules each time.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
BENCH_STAMP := $(VENV)/.bench-stamp
PROTO := $(notdir $(wildcard proto/*.proto))
GENERATED := flotilla/codec/generated

SEED ?= 1
SEEDS ?=
BENCH ?=

.PHONY: setup check test sim mutants bench bench-spark demo chaos proto rewrite clean help

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,spark]'
	@touch $(STAMP)

# What only measuring needs: charts, and the clients of the peers.
$(BENCH_STAMP): $(STAMP) bench/peers/requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]' -r bench/peers/requirements.txt
	@touch $(BENCH_STAMP)

setup: $(STAMP) ## set up .venv with everything needed
	@echo "ready: $(BIN)"

check: $(STAMP) ## lint, format, types, tidy tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/pytest -q -p no:cacheprovider tests/tidy

test: $(STAMP) ## all tests; those of Spark first and alone, because they need both processors
	@$(BIN)/pytest -q -n 0 --timeout 300 tests/integration/spark
	@$(BIN)/pytest -q -n 2 --dist loadgroup --ignore tests/integration/spark

sim: $(STAMP) ## simulate: SEED=n for one seed, SEEDS=n for a swarm of n
	@$(BIN)/flotilla sim $(if $(SEEDS),--seeds $(SEEDS),--seed $(SEED))

mutants: $(STAMP) ## break the code on purpose; the simulator must notice each time
	@$(BIN)/flotilla sim --mutants

bench: $(BENCH_STAMP) ## measure beside probes of this machine and installed peers; BENCH="--help" tells more
	@$(BIN)/python -m bench $(BENCH)

bench-spark: $(STAMP) ## measure the Spark source and sink beside sources that do nothing else
	@$(BIN)/python -m bench spark $(BENCH)

demo: $(STAMP) ## three brokers, kill -9 of a leader, nothing lost; then Spark archives, queries and audits it
	@$(BIN)/flotilla demo

chaos: $(STAMP) ## a work queue whose leaders are killed every 10 s for a minute, nothing lost
	@$(BIN)/flotilla chaos

proto: $(STAMP) ## generate code from proto/
	@$(BIN)/python -m grpc_tools.protoc -I$(GENERATED)=proto --python_out=src --pyi_out=src $(addprefix $(GENERATED)/,$(PROTO))
	@$(BIN)/python -m grpc_tools.protoc -I$(GENERATED)=proto --grpc_python_out=src $(GENERATED)/flotilla.proto

rewrite: $(STAMP) ## record the output of tests/scenarios anew; read the diff
	@$(BIN)/python -m tests.scenarios.rewrite

clean: ## remove everything that was made
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
