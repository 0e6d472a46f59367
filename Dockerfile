# The official image of PostgreSQL, with the extension:
#
#	docker build --build-arg PG_MAJOR=18 --tag postgres-snowflake:18 .
#
# t/world/image.sh tests it on Debian's own packages of PostgreSQL.

ARG PG_MAJOR=18

FROM postgres:${PG_MAJOR} AS build
ARG PG_MAJOR
RUN apt-get update && \
	apt-get install -y --no-install-recommends make gcc libc6-dev postgresql-server-dev-${PG_MAJOR}
COPY . /source
RUN make -C /source PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config with_llvm=no \
	install DESTDIR=/install

FROM postgres:${PG_MAJOR}
COPY --from=build /install/usr /usr
