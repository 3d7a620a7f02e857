# detok. Two commands: `make demo` and `make test`. Each sets up what it needs, in .venv/,
# node_modules/ and .build/. Given: Python 3.11 or newer, make and git; where uv or Node is missing,
# the set-up fetches it.

PORT ?= 8765
ENGINE ?=
TAG ?=
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv/bin/python
# Where the set-up puts a Node of its own if the machine has none that is new enough.
export PATH := $(CURDIR)/.build/node/bin:$(PATH)
# npm, uv and the browsers write to HOME.
ifneq ($(shell test -w "$$HOME" && echo yes),yes)
export HOME := $(CURDIR)/.build/home
endif
# Python reads the path of the project, which may have any letters, by this.
ifneq ($(filter C POSIX,$(LC_ALL)),)
export LC_ALL := C.UTF-8
endif

.PHONY: help demo site test test-all check soak mutants bench peers real-uis real-engines pictures package release-check fresh format lock clean

help:
	@echo "make demo      serves the page on http://127.0.0.1:$(PORT)/   (PORT=…, ENGINE=http://127.0.0.1:8080)"
	@echo "make site      builds the page and the documents as a static site that needs no bridge, in .build/site/"
	@echo "make test      touches every part: lint, types, CPython, Pyodide, MicroPython, Chromium, Firefox"
	@echo "make test-all  runs the rest of the tests"
	@echo "make check     lint, types and the quick unit tests: the loop while writing"
	@echo "make soak      runs the tests that take many minutes"
	@echo "make mutants   changes the code in some 350 places, one at a time, and counts the changes that no test notices"
	@echo "make fresh     runs make demo and make test as on a machine that nobody has touched"
	@echo "make bench     measures beside peers and writes docs/benchmarks.md: installs 3 GB, takes ten minutes"
	@echo "make peers     runs other systems through the conformance suite and writes docs/conformance.md: installs 3 GB"
	@echo "make real-uis  tries the regression kit on other people's chat UIs: installs 4 GB"
	@echo "make real-engines  compares vLLM and transformers with their own truth: installs 2 GB"
	@echo "make pictures  makes the pictures of the README from the page"
	@echo "make package   builds what is published into dist/: for Python two distributions, for npm two packages"
	@echo "make release-check  builds it, and rehearses the release up to the upload   (TAG=v1.2.3)"
	@echo "make format    formats Python and JavaScript"
	@echo "make lock      pins requirements/*.txt again from pyproject.toml"
	@echo "make clean     removes everything that was set up or built"

# Every recipe that needs a set-up begins with it: when all is there it takes a tenth of a second.
define setup
	@test -n "$(PYTHON)" || { echo "detok needs Python 3.11 or newer, and none is on the PATH; install one, or say make PYTHON=/path/to/python." >&2; exit 1; }
	@$(PYTHON) tools/setup.py $(1)
endef

demo:
	$(call setup,demo)
	@exec $(VENV) -m detok_py serve --port "$(PORT)" $(if $(ENGINE),--engine "$(ENGINE)")

site:
	$(call setup,site)
	@exec $(VENV) tools/build_site.py

test:
	$(call setup,test)
	@exec $(VENV) tools/checks.py test

test-all:
	$(call setup,test-all)
	@exec $(VENV) tools/checks.py test-all

check:
	$(call setup,check)
	@exec $(VENV) tools/checks.py check

soak:
	$(call setup,test-all)
	@exec $(VENV) tools/checks.py soak

mutants:
	$(call setup,mutants)
	@exec $(VENV) tools/mutants.py

bench:
	$(call setup,bench)
	@exec $(VENV) -m benchmarks

peers:
	$(call setup,peers)
	@exec $(VENV) tools/peers.py

real-uis:
	$(call setup,real-uis)
	@exec $(VENV) tools/checks.py real-uis

real-engines:
	$(call setup,real-engines)
	@exec $(VENV) tools/checks.py real-engines

pictures:
	$(call setup,pictures)
	@exec $(VENV) tools/make_pictures.py

package:
	$(call setup,test)
	@exec $(VENV) tools/package.py

release-check:
	$(call setup,release)
	@$(VENV) tools/package.py
	@exec $(VENV) tools/release_check.py $(TAG)

fresh:
	@test -n "$(PYTHON)" && exec $(PYTHON) tests/fresh/run.py

format:
	$(call setup,check)
	@$(VENV) -m ruff format . && $(VENV) -m ruff check --fix . && node_modules/.bin/prettier --log-level warn --write .

lock:
	@exec $(PYTHON) tools/lock.py

clean:
	rm -rf .venv node_modules .build dist test-results .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
