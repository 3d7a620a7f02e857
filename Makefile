# detok. Two commands: `make demo` and `make test`; each sets up what it needs into .venv/, node_modules/ and .build/.
# Given: Python >= 3.11, Node >= 20, make, git.

PORT ?= 8765
ENGINE ?=
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv/bin/python

.PHONY: help demo test check soak bench real-uis package lock clean

help:
	@echo "make demo    the page, on http://127.0.0.1:$(PORT)/   (PORT=…, ENGINE=http://127.0.0.1:8080)"
	@echo "make test    everything: lint, types, unit tests in CPython and in Pyodide, Chromium, Firefox"
	@echo "make check   the fast loop, without a browser"
	@echo "make soak    the tests that take many minutes"
	@echo "make bench   measurements against peers, one JSON object a line"
	@echo "make real-uis tries the regression kit on other people's chat UIs: installs 800 MB, takes many minutes"
	@echo "make package the wheel, the sdist and the npm package into dist/"
	@echo "make clean   remove everything that was set up or built"

# Every recipe that needs a set-up begins with it: when all is there it takes a tenth of a second.
define setup
	@test -n "$(PYTHON)" || { echo "detok needs Python 3.11 or newer, and none is on the PATH; install one, or say make PYTHON=/path/to/python." >&2; exit 1; }
	@$(PYTHON) tools/setup.py $(1)
endef

demo:
	$(call setup,demo)
	@exec $(VENV) -m detok_py serve --port "$(PORT)" $(if $(ENGINE),--engine "$(ENGINE)")

test:
	$(call setup,test)
	@exec $(VENV) tools/checks.py all

check:
	$(call setup,check)
	@exec $(VENV) tools/checks.py lint types unit --quick

soak:
	$(call setup,test)
	@exec $(VENV) tools/checks.py soak soak-chromium soak-firefox

bench:
	$(call setup,check)
	@exec $(VENV) -m benchmarks

real-uis:
	$(call setup,real-uis)
	@exec $(VENV) tools/checks.py real-chromium real-firefox

package:
	$(call setup,test)
	@exec $(VENV) tools/package.py

lock:
	$(call setup,check)
	@exec $(VENV) tools/lock.py

clean:
	rm -rf .venv node_modules .build dist test-results .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
