# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
ARGS ?=

.PHONY: run test docs clean

run: .venv/installed
	.venv/bin/python -m mira_bench $(ARGS)

test: .venv/installed-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict

# torch first and alone: the exact version that the constraints name, before another package asks for a newer one.
.venv/installed: pyproject.toml constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -q --constraint constraints.txt torch==2.13.0
	.venv/bin/python -m pip install -q --constraint constraints.txt --editable .
	touch $@

.venv/installed-test: .venv/installed
	.venv/bin/python -m pip install -q --constraint constraints.txt --editable '.[test]'
	touch $@

.venv/installed-docs: .venv/installed
	.venv/bin/python -m pip install -q --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv build site *.egg-info .pytest_cache .mypy_cache .ruff_cache
