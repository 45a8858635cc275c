PYTHON ?= python3
BIN := .venv/bin
# Keep compiled modules between runs: without them every worker of pytest takes ten seconds longer to collect the tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: env
env: ## Make .venv from the hashed requirement files (every target below does this by itself)
	@$(PYTHON) hack/environment.py

.PHONY: demo
demo: env ## Bring up a federation and tell its stories; it stays up to play with
	@$(BIN)/python hack/demo.py

.PHONY: demo-down
demo-down: env ## End the demo's federation
	@hack/federation down --dir .demo

.PHONY: test
test: env ## Everything that must hold, the real federation included; LANES="shared alone" for some of it
	@PYTHONPATH=hack $(BIN)/python -m suite $(LANES)

.PHONY: unit
unit: env ## The fast tests alone, in parallel, without a federation, and with few fresh seeds of the simulations
	@FEDQUOTA_FRESH_PERCENT=10 $(BIN)/pytest -m "not federation and not own and not soak" --ignore=tests/federation \
		-n logical --maxprocesses=8 --dist=worksteal

.PHONY: soak
soak: env ## The nightly run: tests that take long, all mutations, and fresh seeds for the rest of MINUTES=60
	@$(BIN)/python hack/soak.py --minutes $(or $(MINUTES),60)

.PHONY: fuzz
fuzz: env ## Hostile input driven by coverage, a minute for each target: SECONDS=600 for longer, TARGET=quotas for one
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	@$(BIN)/python hack/fuzz.py --seconds $(or $(SECONDS),60) $(TARGET)

.PHONY: lint
lint: env ## Formatting, lints, types, and the import rings
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python hack/crds.py --check
	@$(BIN)/python hack/reference.py --check
	@$(BIN)/python hack/metrics.py --check

.PHONY: fix
fix: env ## Mend what ruff can mend
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

.PHONY: crds
crds: env ## Write crds/ anew from the models
	@$(BIN)/python hack/crds.py

.PHONY: reference
reference: env ## Write docs/reference.md anew from the code
	@$(BIN)/python hack/reference.py

.PHONY: metrics
metrics: env ## Write docs/metrics.md anew from the definitions
	@$(BIN)/python hack/metrics.py

.PHONY: chart
chart: env ## Write anew what follows from the chart: roles of local federations, the table in its README
	@$(BIN)/python hack/chart.py

.PHONY: bench
bench: env ## Measure, as ratios against the peers in one run, into bench/results.json; SET=growth for one set alone
	@PYTHONPATH=hack $(BIN)/python -m bench $(SET)

.PHONY: faults
faults: env ## Faults on a real federation under load, and an independent check; FLAGS="--seed 7 --only kill"
	@PYTHONPATH=hack $(BIN)/python -m faults $(FLAGS)

.PHONY: lock
lock: env ## Resolve the requirement files anew (needs PyPI)
	@$(BIN)/python hack/lock.py

.PHONY: clean
clean: ## Remove .venv and what tools left in the checkout (what was built for federations stays in the user's cache)
	@rm -rf .venv .venv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .suite
