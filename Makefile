# Needs Python >= 3.11, git and make; everything else comes into .venv by itself.
#   make test PYTHON=python3.13    choose the Python of .venv (after `make clean`)
#   make test ARGS="-k shardings"  more arguments for pytest (or for scripts/matrix.py)

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo test matrix bench format clean

PYTHON ?=
JOBS ?= 2
ARGS ?=

venv := .venv
bin := $(venv)/bin
stamp := $(venv)/.installed
report := $(venv)/report.xml
sources := src tests scripts $(wildcard examples benchmarks)

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(stamp)  ## train a small model, move it between devices and processes
	@$(bin)/python examples/train_and_move.py

test: $(stamp)  ## lint, format check, types and the full suite, on the default JAX
	@rm -f $(report)
	@$(bin)/ruff check --quiet $(sources)
	@$(bin)/ruff format --check --quiet $(sources) || { echo 'Not formatted: run `make format`.'; exit 1; }
	@$(bin)/python -m mypy --no-error-summary
	@$(bin)/python -m pytest -q -n $(JOBS) --dist worksteal --junit-xml=$(report) $(ARGS)

matrix: $(stamp)  ## the suite on every supported JAX (Python 3.11 and 3.13)
	@$(bin)/python scripts/matrix.py $(ARGS)

bench: $(stamp)  ## every claim about speed, measured here
	@set -e; for script in benchmarks/[!_]*.py; do echo "== $$script"; $(bin)/python "$$script"; done

format: $(stamp)  ## rewrite the sources as `make test` wants them
	@$(bin)/ruff check --quiet --fix --exit-zero $(sources)
	@$(bin)/ruff format --quiet $(sources)

clean:  ## remove all that these targets made
	rm -rf .venv .matrix .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests scripts $(wildcard examples benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +

$(stamp): pyproject.toml $(wildcard constraints/*.txt) scripts/venv.sh
	@sh scripts/venv.sh "$(PYTHON)" $(venv)
	@touch $@
