# snowflake/Makefile

MODULE_big = snowflake
OBJS = \
	$(WIN32RES) \
	generator.o \
	inspect.o \
	layout.o \
	mark.o \
	mask.o \
	registry.o \
	settings.o \
	snowflake.o \
	stats.o \
	text.o

EXTENSION = snowflake snowflake_registry
DATA = snowflake--1.0.sql snowflake_registry--1.0.sql
PGFILEDESC = "snowflake - 64-bit, time-ordered, globally unique ids"

REGRESS = layout decode compose vectors roundtrip settings generate tables internal mark \
	time partitions text mask inspect reserve adopt status registry

PG_CPPFLAGS = -I$(libpq_srcdir)
SHLIB_LINK_INTERNAL = $(libpq)

REGRESS_OPTS = --encoding=UTF8 --load-extension=snowflake

# packages are tested without
TAP_TESTS ?= 1

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS knows of header dependencies only where the server was configured so
generator.o: compat.h generator.h layout.h mark.h settings.h stats.h
inspect.o: inspect.h layout.h
layout.o: compat.h layout.h
mark.o: compat.h mark.h
mask.o: mask.h
registry.o: compat.h generator.h layout.h registry.h settings.h stats.h
settings.o: compat.h layout.h settings.h
snowflake.o: compat.h generator.h inspect.h layout.h mask.h registry.h settings.h stats.h text.h
stats.o: stats.h
text.o: text.h

# what PGXN takes
DISTVERSION = $(shell sed -n '1,/"version"/s/.*"version": "\(.*\)",/\1/p' META.json)
.PHONY: dist
dist:
	git archive --format=zip --prefix=snowflake-$(DISTVERSION)/ \
		--output=snowflake-$(DISTVERSION).zip HEAD

# for script/check
print-%:
	@echo $($*)
