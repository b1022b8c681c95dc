# Every target creates the virtual environment on first use. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Tests and benchmarks start hundreds of nodes; compiled modules must stay on disk between them.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
BENCH_STAMP := $(VENV)/.bench-stamp
PROTO := $(notdir $(wildcard proto/*.proto))
GENERATED := flotilla/codec/generated
TYPESCRIPT := sdks/typescript
JAVA := sdks/java

SEED ?= 1
SEEDS ?=
BENCH ?=
# `starved` is `process` with a tenth of a processor for each broker.
SCENARIO ?= process network power disk clock operations together tasks starved
FOR ?= 60s
MINUTES ?= 10
CHAOS ?=

.PHONY: setup check quick test sim mutants bench bench-spark demo chaos fuzz attack proto sdks rewrite clean help

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,spark]'
	@touch $(STAMP)

# For benchmarks only: charts, and the client libraries of the peers.
$(BENCH_STAMP): $(STAMP) bench/peers/requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]' -r bench/peers/requirements.txt
	@touch $(BENCH_STAMP)

setup: $(STAMP) ## create .venv with everything that development needs
	@echo "ready: $(BIN)"

check: $(STAMP) ## lint, format, types; the tidy tests are part of quick and test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/mypy

quick: $(STAMP) ## unit, paper, scenario and tidy tests without the slow ones: under two minutes
	@$(BIN)/pytest -q -n 2 --dist loadgroup -m "not slow" tests/unit tests/paper tests/scenarios tests/tidy

test: $(STAMP) ## all tests, to the end even when some fail; Spark's beside the others
	@$(BIN)/python -m tests

sim: $(STAMP) ## simulate: SEED=n for one seed, SEEDS=n for a swarm of n
	@$(BIN)/flotilla sim $(if $(SEEDS),--seeds $(SEEDS),--seed $(SEED))

mutants: $(STAMP) ## break the code on purpose; the simulator must notice every time
	@$(BIN)/flotilla sim --mutants
	@$(BIN)/flotilla sim --whole --mutants

bench: $(BENCH_STAMP) ## measure beside probes of this machine and installed peers; BENCH="--help" prints the options
	@$(BIN)/python -m bench $(BENCH)

bench-spark: $(STAMP) ## measure the Spark source and sink beside sources that only produce rows
	@$(BIN)/python -m bench spark $(BENCH)

demo: $(STAMP) ## run three brokers, kill -9 a leader, lose nothing; then archive, query and audit with Spark
	@$(BIN)/flotilla demo

chaos: $(STAMP) ## break real brokers under load, each scenario for a minute: SCENARIO=, FOR=, CHAOS="--seed 7"
	@failed=""; $(foreach each,$(SCENARIO), \
		$(BIN)/flotilla chaos --scenario $(each:starved=process --starved) --for $(FOR) $(CHAOS) || failed="$$failed $(each)";) \
	test -z "$$failed" || { echo "rules were broken in:$$failed"; exit 1; }

fuzz: $(STAMP) ## feed all decoders with atheris, which follows the branches: MINUTES=10 for all together
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

attack: $(STAMP) ## attack a node with slow, endless and senseless connections, and measure an honest client beside it
	@$(BIN)/python -m tests.attacks

proto: $(STAMP) ## generate code from proto/
	@$(BIN)/python -m grpc_tools.protoc -I$(GENERATED)=proto --python_out=src --pyi_out=src $(addprefix $(GENERATED)/,$(PROTO))
	@$(BIN)/python -m grpc_tools.protoc -I$(GENERATED)=proto --grpc_python_out=src $(GENERATED)/flotilla.proto
	@if test -x $(TYPESCRIPT)/node_modules/.bin/protoc-gen-es; then \
		$(BIN)/python -m grpc_tools.protoc -Iproto --plugin=$(TYPESCRIPT)/node_modules/.bin/protoc-gen-es \
			--es_out=$(TYPESCRIPT)/src/generated --es_opt=target=ts,import_extension=js proto/client.proto; \
	else echo "not generated: the code of $(TYPESCRIPT); run npm ci there first"; fi

sdks: $(STAMP) ## build and test the clients in other languages, where their tools are installed
	@$(BIN)/pytest -q -n 0 -rs tests/integration/sdks tests/conformance/test_typescript.py tests/conformance/test_java.py

rewrite: $(STAMP) ## record the output of tests/scenarios again; read the diff
	@$(BIN)/python -m tests.scenarios.rewrite

clean: ## remove everything that make created
	@rm -rf $(VENV) $(JAVA)/target $(TYPESCRIPT)/build $(TYPESCRIPT)/dist $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/tsconfig.tsbuildinfo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
