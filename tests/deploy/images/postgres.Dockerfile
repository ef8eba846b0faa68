# Stands in for the official image of Postgres where no registry can be reached.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql && rm -rf /var/lib/apt/lists/* \
	&& mkdir -p /docker-entrypoint-initdb.d /var/lib/postgresql/data
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/data
COPY postgres-entrypoint /usr/local/bin/
ENTRYPOINT ["postgres-entrypoint"]
