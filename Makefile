# `make help` lists the targets. Setting up is done by the scripts in .make/, each with its rule in its head.
# PYTHON=... names the interpreter for .venv; ARGS=... is passed on to the demo, to pytest or to the benchmark.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo test quick long container check site bench campaign clean

BIN := .venv/bin
export PYTHON

help:
	@echo 'make demo    set up .venv, then watch a day of flights go through Tarry (about a minute)'
	@echo 'make test    set up, check, and run every test'
	@echo 'make quick   lint, and a case of each quick test that wants no server and no process; for in between'
	@echo 'make long    the other tests: whose turn it was on MariaDB alone or on MySQL, and those that take minutes, the pipeline on'
	@echo '             Spark, on every store and all the way round; the campaign in short'
	@echo 'make container  of the long ones, the one that builds the image and runs two servers of it: wants podman, as root'
	@echo 'make check   format, lint, types (mypy and pyright, strict), import contracts, the documents as a site'
	@echo 'make site    the documents as a site, in build/site'
	@echo 'make bench   every benchmark in short form; docs/benchmarks.md has the long commands'
	@echo 'make campaign  nodes, lines and databases killed under load; docs/reliability.md has the long command'
	@echo 'make clean   remove .venv, builds and caches'

demo:
	@.make/venv run
	@$(BIN)/tarry demo $(ARGS)

test:
	@.make/venv dev
	@.make/servers
	@.make/tests $(ARGS)

quick:
	@.make/venv dev
	@.make/tests quick

long:
	@.make/venv dev
	@.make/servers
	TARRY_TEST_FULL=1 $(BIN)/pytest -m 'long or full' $(ARGS)

container:
	@.make/venv dev
	$(BIN)/pytest -m long $(ARGS) tests/acceptance/test_container.py

# mypy reads tests from their own folder: from here `tests/client` would be the room `client`.
# PYTHONPATH: import-linter reads the package in its installed shape, see CONTRIBUTING.md.
check:
	@.make/venv dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p tarry
	cd tests && ../$(BIN)/mypy --config-file ../pyproject.toml .
	$(BIN)/pyright --pythonpath $(BIN)/python
	PYTHONPATH=.tree $(BIN)/lint-imports --no-logo
	@$(MAKE) site

# A link or an anchor that leads nowhere, or a page that no menu has, is an error. The theme's word on other versions of
# mkdocs than ours is left out.
site:
	@.make/venv dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench:
	@.make/venv dev
	@.make/servers
	@.make/bench $(ARGS)

campaign:
	@.make/venv dev
	@.make/servers
	$(BIN)/python -P -m tarry.bench.campaign $(ARGS)

clean:
	rm -rf .venv build dist *.egg-info .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .servers
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
