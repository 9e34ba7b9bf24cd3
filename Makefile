# One obvious command each. PYTHON is the interpreter that makes the environment.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup lint test check docs full

setup:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test:
	$(BIN)/python -m pytest -n 2

check: lint test

docs:
	$(BIN)/mkdocs build --strict --site-dir build/site

full:
	bash .ci/full
