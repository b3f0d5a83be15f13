# Two commands are enough: `make serve` and `make test`. Everything is set up in .venv on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install setup serve demo test test-matrix check check-fast coverage fuzz fuzz-html chaos bench simulate scale docs lock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 serve")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# It locks what the server needs as well, and to ask pip once is quicker.
$(VENV)/.dev: requirements-dev.lock requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(VENV)/.runtime $@

install: $(VENV)/.runtime ## what running the server needs, into .venv

setup: $(VENV)/.dev ## the same, with the tools that tests and checks need

serve: $(VENV)/.runtime | backend.json ## run everything in one process on http://127.0.0.1:8080
	@$(BIN)/microsub serve --show-token $(ARGS)

backend.json:
	cp backend.json.example $@

demo: $(VENV)/.runtime ## the same, following invented blogs that post all the time
	@$(BIN)/microsub demo $(ARGS)

test: $(VENV)/.dev programs ## run all tests; ARGS="tests/cli" for some
	@TEST_FILES=1 $(BIN)/python -m pytest $(ARGS)

.PHONY: programs
programs: # what the tests start beside Python
	@scripts/programs

test-matrix: $(VENV)/.dev programs ## the same, with everything that can on fakeredis and on a Redis Cluster too, and four times the generated inputs
	@TEST_MATRIX=1 TEST_FILES=1 $(BIN)/python -m pytest $(ARGS)

check-fast: $(VENV)/.dev ## format, lint, types, layers: a minute, without the tests
	@scripts/check --fast

check: $(VENV)/.dev ## format, lint, types, layers, tests: what CI runs
	@scripts/check

# What was killed as it saved its counts can't be read.
coverage: $(VENV)/.dev programs ## test, and say which lines and branches have not run, in the tests or in processes that they start
	@rm -f .coverage*
	@TEST_FILES=1 $(BIN)/coverage run -m pytest $(ARGS); ended=$$?; \
	$(BIN)/coverage combine --quiet 2>/dev/null; rm -f .coverage.*; \
	$(BIN)/coverage report --fail-under=96 && exit $$ended

fuzz: $(VENV)/.dev ## damage documents for SECONDS=600 and keep what teaches something in tests/data/fuzz
	@$(BIN)/python -W ignore -m tests.fuzz.fuzzer $(or $(SECONDS),600)

fuzz-html: $(VENV)/.dev ## compose INPUTS=1000000 tricks against the sanitiser and keep those that get through
	@$(BIN)/python -m tests.fuzz.joints $(or $(INPUTS),1000000)

$(VENV)-bench/.done: requirements-bench.lock | $(BIN)/python
	$(BIN)/python -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $@

chaos: $(VENV)/.dev ## kill processes at random, KILLS=300 of them, and see that nothing is lost, doubled or forgotten
	@CHAOS_KILLS=$(or $(KILLS),300) CHAOS_PACE=$(or $(PACE),0.2) $(BIN)/python -m pytest -n 0 -s tests/chaos

bench: $(VENV)/.dev $(VENV)-bench/.done ## measure: against static bytes, feedparser, and lemon24's reader
	@$(BIN)/python -m benchmarks $(ARGS)

simulate: $(VENV)/.dev ## a month of polling 10,000 invented feeds, against a fixed schedule
	@$(BIN)/python -m benchmarks.politeness $(ARGS)

scale: $(VENV)/.dev ## load 10,000 users with 100 of 50,000 feeds each, and hold it against the model
	@$(BIN)/python -m benchmarks.scale $(ARGS)

.PHONY: pictures
pictures: $(VENV)/.dev programs ## take the pictures of README and docs from the demo, and measure what its pages cost a browser
	@$(BIN)/python -m scripts.pages

docs: $(VENV)/.dev ## write the generated reference pages again
	@$(BIN)/python scripts/reference.py

lock: ## write the lock files again (needs uv)
	@scripts/lock

clean: ## remove the environment and caches; data is kept
	rm -rf $(VENV) $(VENV)-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage*
