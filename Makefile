# make demo   build, install into .venv, run a real model mirrored, compare
# make test   C under sanitizers, units, real engines, faults, a multi-node kernel in QEMU
# make lint   types, style, formats
# make man    the manual pages, from the commands' help
# make wheels wheels for x86_64 and aarch64 in dist/, for glibc 2.17 and newer
# make test-packaging  those wheels, old systems, another processor, a fresh Debian, the recipes
# make test-messages  the unit tests, and which of our messages does no test bring about?
# make release  a dry run: does everything agree, and what would be given away?
# make session the session in the README, on two emulated nodes
# make screens every command's screen in docs/screens.md, on emulated machines
SHELL := /bin/bash
VENV := .venv
PYTHON := $(VENV)/bin/python
CORES := $(shell nproc)
SOURCES := $(shell find numamirror_cli native man docs -type f -not -name '*.pyc') \
           pyproject.toml README.md CHANGELOG.md
C_FILES = $(shell find native tests -name '*.[ch]')

.PHONY: engines-table test-engines-full demo test lint format test-native test-unit test-engines test-reliability test-guest fuzz test-packaging test-messages man session screens wheels release bench clean

demo: $(VENV)/.demo
	@$(PYTHON) tests/engines/demo.py

test: $(VENV)/.all test-native test-unit test-engines test-reliability test-guest

# ---- one virtual environment; a stamp for each set of packages ----

$(PYTHON):
	@python3 -m venv $(VENV) || { rm -rf $(VENV); tools/install-venv; python3 -m venv $(VENV); }

$(VENV)/.demo: $(PYTHON) $(SOURCES)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check '.[demo]'
	@touch $@

$(VENV)/.all: $(PYTHON) $(SOURCES)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check '.[demo,dev,engines]'
	@touch $@ $(VENV)/.demo

$(VENV)/.release: $(VENV)/.all
	$(PYTHON) -m pip install --quiet --disable-pip-version-check '.[release]'
	@touch $@

# ---- tests; pytest's exit 5 (nothing collected) is a failure like any other ----

# With SECOND_TRY=1, as in CI, whose machine is shared with who knows what: a test that failed runs
# once more, in a new process that boots its guests anew, and fails if it fails again. What passes
# then is a defect all the same: the output names it, and it is to be made steady.
SECOND_TRY :=

# $(call tried,pytest's command)
again = || { [ $$? = 1 ] && echo 'Once more what failed; what passes now is unsteady:' && \
    $(1) --last-failed --last-failed-no-failures none; }
tried = $(1)$(if $(SECOND_TRY), $(call again,$(1)))

# Sanitizers of older compilers (gcc 12, clang 14) end programs at random where addresses are as
# random as some distributions make them (vm.mmap_rnd_bits 32).
STEADY := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# Plain (with the count of allocations), under ASan and UBSan, under TSan.
test-native: $(VENV)/.all
	@for kind in none address,undefined thread; do \
	    tree=build/sanitize/$${kind%%,*}; \
	    $(VENV)/bin/cmake -S native -B $$tree -DNM_SANITIZE=$${kind/none/} -DBUILD_TESTING=ON \
	        -DCMAKE_BUILD_TYPE=Debug >/dev/null && \
	    $(VENV)/bin/cmake --build $$tree -j$(CORES) >/dev/null && \
	    $$([ $$kind = none ] || echo $(STEADY)) \
	    $(VENV)/bin/ctest --test-dir $$tree --output-on-failure \
	        $(SECOND_TRY:%=--repeat until-pass:2) || exit 1; \
	done

# Under coverage, in the processes that they start too: which of our messages does no test bring
# about? It costs half as much again.
test-unit: $(VENV)/.all
	@rm -rf build/coverage && mkdir -p build/coverage
	export COVERAGE_FILE=$(CURDIR)/build/coverage/data; \
	    $(call tried,$(PYTHON) -m coverage run -m pytest tests/unit)
	$(PYTHON) tools/messages.py --reached build/coverage/data*

test-messages: test-unit

test-engines: $(VENV)/.all
	$(call tried,$(PYTHON) -m pytest tests/engines)

# The same, and engines that are built from source: a quarter of an hour more the first time.
test-engines-full: $(VENV)/.all
	$(PYTHON) -m pip install --quiet --disable-pip-version-check '.[engines-full]'
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" NUMAMIRROR_BUILD_ENGINES=1 $(PYTHON) -m pytest tests/engines

# The tables of engines in the README and in docs/engines.md, of all that can be had here.
engines-table: $(VENV)/.all
	$(PYTHON) tests/engines/support.py --forget
	$(MAKE) test-engines-full
	$(PYTHON) tests/engines/support.py

# Faults produced for real: docs/reliability.md. After test-native, whose sanitized shim it runs.
test-reliability: $(VENV)/.all
	$(call tried,$(PYTHON) -m pytest tests/reliability)

test-guest: $(VENV)/.all
	$(call tried,$(PYTHON) -m pytest tests/guest)

# Apart from `make test`: it builds wheels and a Debian, and takes some minutes.
test-packaging: wheels
	$(call tried,$(PYTHON) -m pytest tests/packaging)

# A minute of libFuzzer on the shim's parsers; needs clang with its fuzzer's runtime. The same tries
# each time, but for FUZZ_SEED=0, which makes it others; FUZZ_SECONDS is of each parser.
FUZZ_SEED := 1
FUZZ_SECONDS := 7
FUZZED := config static_elf static_x86 node_memory cgroup_memory mapped_file pci_address filter json_escape

fuzz: $(VENV)/.all
	@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    clang -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null || \
	    { echo 'make fuzz: needs clang with its fuzzer: apt-get install clang libclang-rt-dev'; \
	      exit 1; }
	@$(VENV)/bin/cmake -S native -B build/fuzz -DCMAKE_C_COMPILER=clang \
	    -DNM_SANITIZE=fuzzer-no-link,address,undefined >/dev/null
	@$(VENV)/bin/cmake --build build/fuzz -j$(CORES) --target $(FUZZED:%=fuzz_%) >/dev/null
	@for name in $(FUZZED); do \
	    mkdir -p build/fuzz/corpus/$$name && \
	    $(STEADY) build/fuzz/fuzz/fuzz_$$name -seed=$(FUZZ_SEED) -max_total_time=$(FUZZ_SECONDS) \
	        -max_len=4096 -verbosity=0 -print_final_stats=1 \
	        -artifact_prefix=build/fuzz/$$name- build/fuzz/corpus/$$name \
	        native/fuzz/corpus/$$name || exit 1; \
	done

# ---- the look of the code ----

lint: $(VENV)/.all
	$(VENV)/bin/mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run -Werror $(C_FILES)

format: $(VENV)/.all
	$(VENV)/bin/ruff check --fix --quiet . || true
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(C_FILES)

# ---- what is generated and kept ----

man: $(VENV)/.all
	$(PYTHON) tools/make_man.py

session: $(VENV)/.all
	$(PYTHON) tools/session.py

screens: $(VENV)/.all
	$(PYTHON) tools/screens.py

# ---- what is given away ----

wheels: $(VENV)/.release man
	$(PYTHON) tools/build_wheels.py

release: wheels
	$(PYTHON) tools/release.py

# Ratios of alternating runs, on a machine that does nothing else meanwhile; never part of a test.
bench: $(VENV)/.all
	$(PYTHON) -m bench

clean:
	rm -rf build dist $(VENV)
