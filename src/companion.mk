# companion.mk: the core's C files that companion extensions compile into their
# own libraries, so that all of them reach SQL through util/sql.c. A companion's
# Makefile includes this file, adds $(CORE_OBJS) to its OBJS and calls SqlInit()
# in its _PG_init().
#
# The objects lie in the companion's folder core/, as they may have other flags
# than those of the core itself.

CORE := $(dir $(lastword $(MAKEFILE_LIST)))
CORE_OBJS = core/sql.o core/sql_value.o core/row.o core/duration.o

core/%.o: $(CORE)util/%.c
	@mkdir -p core
	$(CC) $(CFLAGS) $(CPPFLAGS) -c -o $@ $<
core/%.o: $(CORE)types/%.c
	@mkdir -p core
	$(CC) $(CFLAGS) $(CPPFLAGS) -c -o $@ $<
