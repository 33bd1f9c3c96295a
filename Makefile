# Every target makes .venv by itself, from Python 3.11+ (or uv) and make. `make` alone lists the targets.
# PYTHON=... chooses the interpreter, ARGS=... is passed on to pytest, JOBS=n is how many tests run at once (0: in one process).

SHELL := /bin/sh
BIN := .venv/bin
SOURCES := benchmarks cli kernel plugins scripts tests
export PYTHON
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help venv demo test check soak bench format lint-fix catalogue generate docs new-plugin clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

venv: ## make or refresh .venv
	@scripts/bootstrap.sh

demo: venv ## run examples/demo.yaml on a small real model: no key, no network
	$(BIN)/treadle run examples/demo.yaml

# The property tests draw the same examples every time; `make soak` is where they roam.
test: venv ## run the tests
	$(BIN)/pytest --hypothesis-profile=ci -n $(JOBS) $(ARGS)

check: venv ## lint, formatting, strict types, import rules, generated files, package metadata, documentation site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/catalogue.py --check
	$(BIN)/python scripts/errors_page.py --check
	$(BIN)/python scripts/language_pages.py --check
	$(BIN)/python scripts/reference_pages.py --check
	$(BIN)/python scripts/provider_page.py --check
	$(BIN)/python scripts/workspace.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# pytest exits 5 where nothing was selected.
soak: venv ## run the tests that take minutes
	@$(BIN)/pytest -m soak $(ARGS); code=$$?; \
	if [ $$code -eq 5 ]; then echo "make soak: there are no soak tests yet; nothing was run"; exit 0; fi; exit $$code

bench: venv ## measure against hand-written floors (ROUNDS=n; PEERS=1 adds other systems)
	$(BIN)/python benchmarks/run.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PEERS),--peers)

format: venv ## format the code, and fix what ruff can fix
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint-fix: format ## the same as format

catalogue: venv ## write the catalogue of first-party plugins anew
	$(BIN)/python scripts/catalogue.py

generate: venv ## write everything anew that is made from the code: the catalogue, and pages of the documentation
	$(BIN)/python scripts/catalogue.py
	$(BIN)/python scripts/errors_page.py
	$(BIN)/python scripts/language_pages.py
	$(BIN)/python scripts/reference_pages.py
	$(BIN)/python scripts/provider_page.py

docs: venv ## write the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

new-plugin: venv ## start a plugin of this repository: make new-plugin NAME=x KIND=step
	$(BIN)/python scripts/new_plugin.py $(NAME) --kind $(KIND)

clean: ## remove .venv and everything that tools leave behind
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find $(SOURCES) -type d \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
