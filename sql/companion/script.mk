# script.mk: how a companion's Makefile makes its install script: its schema,
# what all companions share, and its pieces in order.

COMPANION := $(dir $(lastword $(MAKEFILE_LIST)))
PIECES = $(sort $(wildcard sql/[0-9][0-9]_*.sql))

$(SCRIPT_SQL): $(PIECES) $(COMPANION)common.sql $(COMPANION)script.mk \
		$(EXTENSION).control Makefile
	@{ printf '%s\n' '\echo Use "CREATE EXTENSION $(EXTENSION)" to load this file. \quit'; \
	   echo; cat sql/00_schema.sql; \
	   echo; sed 's/@schema@/$(EXTENSION)/g' $(COMPANION)common.sql; \
	   for piece in $(filter-out sql/00_schema.sql,$(PIECES)); do echo; cat $$piece; done; } > $@.tmp
	@mv $@.tmp $@
