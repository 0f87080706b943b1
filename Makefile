# gpucredit: a GPU credit ledger and GPU job scheduler for PostgreSQL
#
#   make                    build (ASSERTS=1: with assertions, PROFILE=-g...: more flags)
#   make install            install into the server that pg_config belongs to
#   make installcheck       pg_regress and isolation against a running server
#   make decide-check       the scheduler's decisions, without a server
#   make fuzz SECONDS=60    every parser under libFuzzer, that long each
#   make lint               static checks
#   make registry           the model registry beside it
#   make indent             gives the C files their form; indent-check looks
#   tools/test              all of it, from nothing, in a private server

# The table of contents.  A stage lives in src/<stage>/*.c,
# sql/gpucredit/NN_<stage>.sql (the install script's piece), sql/<stage>.sql
# and expected/<stage>.out; decide is C alone; grants is SQL alone.
STAGES = util types shmem api audit request account limits ledger \
	inventory job decide sched worker observe seal grants

# the ledger and scheduler, and the report page, which only reads
LEDGER = gpucredit
REPORT = gpucredit_report
EXTENSION = $(LEDGER) $(REPORT)
MODULE_big = gpucredit
PGFILEDESC = "gpucredit - GPU credit ledger and scheduler"

# The control file is the one place of the version.
EXTVERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" \
	$(LEDGER).control)
SCRIPT_SQL = $(LEDGER)--$(EXTVERSION).sql
REPORT_SQL = $(REPORT)--$(EXTVERSION).sql
PIECES = $(sort $(wildcard sql/gpucredit/[0-9][0-9]_*.sql))
REPORT_PIECES = $(sort $(wildcard sql/gpucredit_report/[0-9][0-9]_*.sql))

# Released versions are frozen in sql/releases. tools/upgrade writes the
# upgrade scripts, with the help of upgrade-VERSION.sql.
DATA = $(wildcard sql/releases/$(LEDGER)--*.sql)
RELEASES = $(patsubst sql/releases/upgrade-%.sql,%,\
	$(wildcard sql/releases/upgrade-*.sql))
UPGRADES = $(patsubst %,$(LEDGER)--%--$(EXTVERSION).sql,$(RELEASES))
DATA_built = $(SCRIPT_SQL) $(REPORT_SQL) $(UPGRADES)

SOURCES = $(sort $(wildcard src/*/*.c src/*/*/*.c)) src/gpucredit.c
OBJS = $(SOURCES:.c=.o)

# Each stage's regression test may use the stages before; other tests run last.
# What regression tests share is in sql/include.
STAGE_TESTS := $(foreach s,$(STAGES),$(patsubst sql/%.sql,%,$(wildcard sql/$(s).sql)))
OTHER_TESTS := $(filter-out $(STAGES),$(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql))))
REGRESS = $(STAGE_TESTS) $(OTHER_TESTS)
REGRESS_OPTS = --load-extension=$(LEDGER)

# Each spec needs what fresh.spec makes.
SPECS := $(filter-out fresh,$(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec))))
ISOLATION = fresh $(SPECS)
ISOLATION_OPTS = --inputdir=test --load-extension=$(LEDGER)

# Only entry points are exported.  PostgreSQL's own headers leave parameters
# unused, hence the one warning less.
PG_CPPFLAGS = -Isrc '-DPGDLLEXPORT=__attribute__((visibility("default")))'
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter \
	-fvisibility=hidden -MMD -MP $(PROFILE)

# An extension alone may have assertions: they change no shared structure, and
# the server always has ExceptionalCondition().
ifdef ASSERTS
PG_CPPFLAGS += -DUSE_ASSERT_CHECKING=1
endif

# pg_config's flags are for gcc, and clang does not know all of them.
ifneq ($(findstring clang,$(CC)),)
PG_CFLAGS += -Wno-ignored-attributes -Wno-ignored-optimization-argument \
	-Wno-unknown-warning-option
endif

EXTRA_CLEAN = $(OBJS:.o=.d) $(EXTENSION:=--*.sql) .build-flags results log \
	regression.diffs regression.out test/results test/output_iso

# Bitcode would only let JIT inline our functions into expressions, which does
# not help a ledger, and it needs the server's version of clang.
override with_llvm = no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(SCRIPT_SQL): $(PIECES)
$(REPORT_SQL): $(REPORT_PIECES)
$(SCRIPT_SQL) $(REPORT_SQL): %--$(EXTVERSION).sql: %.control Makefile
	@{ printf '%s\n' '\echo Use "CREATE EXTENSION $*" to load this file. \quit'; \
	   for piece in $(filter sql/%,$^); do echo; cat $$piece; done; } > $@.tmp
	@mv $@.tmp $@

$(UPGRADES): $(LEDGER)--%--$(EXTVERSION).sql: sql/releases/upgrade-%.sql \
		sql/releases/$(LEDGER)--%.sql $(SCRIPT_SQL) tools/upgrade
	@perl tools/upgrade sql/releases/$(LEDGER)--$*.sql $(SCRIPT_SQL) $< \
		> $@.tmp
	@mv $@.tmp $@

# Objects follow the headers they included (-MMD), and the flags they were
# compiled with.
-include $(wildcard $(OBJS:.o=.d))
$(OBJS): .build-flags
.build-flags: FORCE
	@printf '%s\n' '$(subst ','\'',$(CC) $(CPPFLAGS) $(CFLAGS) $(VERSION))' > $@.tmp
	@if cmp -s $@.tmp $@; then rm $@.tmp; else mv $@.tmp $@; fi

# prints TAP
decide-check:
	@$(MAKE) -s --no-print-directory -C test/decide check
SECONDS = 60
fuzz:
	@$(MAKE) -s --no-print-directory -C test/fuzz run SECONDS=$(SECONDS)

# most tests under AddressSanitizer and UBSan, the core under valgrind
sanitize:
	tools/test sanitize

# the model registry: an extension and a daemon of their own
registry:
	$(MAKE) -C registry all

lint:
	tools/lint
indent:
	tools/indent
indent-check:
	tools/indent --check

# What other folders build is theirs to clean.
clean: clean-tests
clean-tests:
	@for dir in test/decide test/fuzz; do \
		if [ -f $$dir/Makefile ]; then \
			$(MAKE) -s --no-print-directory -C $$dir clean; \
		fi; done

# print-REGRESS, print-ISOLATION, ...: a variable, for the tools
print-%:
	@echo $($*)

.PHONY: FORCE registry decide-check fuzz sanitize lint indent indent-check clean-tests
