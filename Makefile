# snowflake/Makefile

# the extension, and the lease worker, of registry/snowflake_lease.c
MODULE_big = snowflake
MODULES = snowflake_lease
OBJS = \
	$(WIN32RES) \
	snowflake.o \
	src/adjust.o \
	src/clock.o \
	src/decode.o \
	src/generator.o \
	src/lane.o \
	src/layout.o \
	src/limit.o \
	src/mark.o \
	src/settings.o \
	src/shared.o \
	src/stats.o \
	src/status.o \
	src/wait.o \
	src/worker.o

EXTENSION = snowflake registry/snowflake_registry adopt/snowflake_adopt sql-only/snowflake_sql
DATA = snowflake--1.0.sql registry/snowflake_registry--1.0.sql adopt/snowflake_adopt--1.0.sql \
	sql-only/snowflake_sql--1.0.sql
PGFILEDESC = "snowflake - 64-bit, time-ordered, globally unique ids"

REGRESS = layout decode compose vectors roundtrip settings generate tables internal mark \
	time partitions text mask inspect reserve adopt status registry

PG_CPPFLAGS = -I$(srcdir)/src -I$(libpq_srcdir)

REGRESS_OPTS = --encoding=UTF8 --no-locale --load-extension=snowflake

ISOLATION = concurrent_advance concurrent_mark concurrent_adopt
ISOLATION_OPTS = --encoding=UTF8 --no-locale --load-extension=snowflake --load-extension=snowflake_adopt

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>&1)
ifeq ($(wildcard $(PGXS)),)
$(error The server's headers are missing. Install postgresql-server-dev-NN (Debian, Ubuntu) or \
postgresqlNN-devel (RPM), or set PG_CONFIG to the path of its pg_config)
endif
include $(PGXS)

# only the lease worker links libpq, which is slow to load
snowflake_lease$(DLSUFFIX): LDFLAGS_SL += $(libpq) $(PTHREAD_LIBS)
vpath %.c $(srcdir)/registry

# PostgreSQL 15 exports all functions; bind our own at link time, which makes calls
# faster
ifeq ($(PORTNAME), linux)
snowflake$(DLSUFFIX) snowflake_lease$(DLSUFFIX): LDFLAGS_SL += -Wl,-Bsymbolic
endif

# the version of the libraries is that of the extension
override CPPFLAGS += \
	-DLIBRARY_VERSION='"$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(srcdir)/snowflake.control)"'
$(OBJS) $(OBJS:.o=.bc) snowflake_lease.o: $(srcdir)/snowflake.control

# PGXS tracks headers only if the server was configured with --enable-depend
$(OBJS) snowflake_lease.o: $(wildcard $(srcdir)/src/*.h)

# a build outside the source directory has no src yet
$(OBJS) $(OBJS:.o=.bc): | $(CURDIR)/src
$(CURDIR)/src:
	mkdir -p $@

# The SQL tests expect the defaults, which cannot be set for one database.
CHANGED_SETTINGS = SELECT string_agg(name || ' = ' || current_setting(name, true), ', ') FROM (VALUES ('worker_id', '0'), \
	('datacenter_id', '0'), ('layout', 'snowflake'), ('registry', ''), ('max_ahead', '5s'), ('max_wait', '1s')) \
	AS setting (suffix, usual) CROSS JOIN LATERAL concat('snowflake.', suffix) AS name \
	WHERE nullif(current_setting(name, true), '') <> usual

.PHONY: usual-settings
usual-settings:
	@changed=$$('$(bindir)/psql' -XAtd postgres -c "$(CHANGED_SETTINGS)") || exit 1; [ -z "$$changed" ] || \
		{ echo "make installcheck needs a server with the default settings; this one has $$changed" >&2; exit 1; }

installcheck: usual-settings

# the archive for PGXN
DISTVERSION = $(shell sed -n '1,/"version"/s/.*"version": "\(.*\)",/\1/p' META.json)
.PHONY: dist
dist:
	git archive --format=zip --prefix=snowflake-$(DISTVERSION)/ \
		--output=snowflake-$(DISTVERSION).zip HEAD

# print a variable, for the scripts
print-%:
	@echo $($*)
