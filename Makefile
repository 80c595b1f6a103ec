# What developers do often; the tools come from the extra `dev`.
.PHONY: help install lint format test long golden docs site screenshots dashboard constraints ci release clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## Everything for development, into the active environment
	pip install -c constraints.txt -e '.[dev]' && pre-commit install

lint: ## Format, lint, types, spelling, project file: changes nothing
	.ci/lint

format: ## Let ruff format and repair what it can
	ruff format
	ruff check --fix

test: ## All tests but the long ones
	pytest

long: ## The tests that take long, as CI does
	pytest -m long

golden: ## Rewrite the golden files; review the difference like code
	pytest tests/parsers --update-golden

docs: ## Renew every generated page and block
	for maker in $$(grep -l -e --check docs/make_*.py); do python "$$maker" || exit 1; done
	cog -r -I docs README.md docs/cli.md docs/export.md

site: ## The documentation as a site, in build/site
	mkdocs build --strict

screenshots: ## Take the pictures of docs/screenshots again, from the demo
	python docs/make_screenshots.py

dashboard: ## The demo, in a browser
	warmup-insights demo

constraints: ## Print what is installed here, for constraints.txt
	@pip freeze --exclude-editable | sed -E 's/\+cpu$$//'

ci: ## Everything that must hold, in new environments
	.ci/run

release: ## Build and check what a release publishes
	.ci/release

clean: ## Remove what tools leave behind
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
