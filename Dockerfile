# The first stage compiles. The final image has only the programs and the libraries they need.
# --build-arg DEBIAN_RELEASE=trixie builds on Debian 13.
ARG DEBIAN_RELEASE=bookworm
FROM debian:${DEBIAN_RELEASE}-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make pkg-config libwebsockets-dev \
	libmicrohttpd-dev libhiredis-dev libuv1-dev libpq-dev libjansson-dev libssl-dev libsodium-dev libsqlite3-dev zlib1g-dev libzstd-dev libcurl4-openssl-dev libunistring-dev libwslay-dev uthash-dev \
	&& rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile ./
COPY listener listener
COPY loadtest loadtest
COPY lua lua
COPY page page
COPY profiles/cloudevents.json profiles/
COPY sql sql
# The names of the libraries' packages differ between releases, so look them up.
RUN make -j2 programs && strip build/wsonce build/wsonce-source build/wsonce-producer \
	&& ldd build/wsonce build/wsonce-source build/wsonce-producer | sed -n 's/^\t\(.*\) => .*/\1/p' | sort -u \
	| while read -r library; do dpkg-query -S "*/$library"; done | sed 's/:.*//' | sort -u >build/packages \
	&& echo "$(sed -n 's/^VERSION := //p' Makefile) $(dpkg-query -W -f '${Package}=${Version}' uthash-dev)" >build/compiled

FROM debian:${DEBIAN_RELEASE}-slim
LABEL org.opencontainers.image.title="wsonce" org.opencontainers.image.version="1.0.0" \
	org.opencontainers.image.description="Stores each event of a WebSocket feed once, whoever listens" \
	org.opencontainers.image.licenses="MIT"
COPY --from=build /src/build/packages /src/build/compiled /tmp/
COPY deploy/sbom /tmp/
# libwebsockets-evlib-uv is loaded at run time, so ldd does not list it.
RUN apt-get update && apt-get install -y --no-install-recommends $(cat /tmp/packages) libwebsockets-evlib-uv ca-certificates \
	curl && mkdir -p /usr/local/share/wsonce && sh /tmp/sbom $(cat /tmp/compiled) >/usr/local/share/wsonce/sbom.cdx.json \
	&& rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /tmp/packages /tmp/compiled /tmp/sbom \
	&& useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin wsonce \
	&& install -d -o wsonce -g wsonce -m 700 /var/lib/wsonce
COPY --from=build /src/build/wsonce /src/build/wsonce-source /src/build/wsonce-producer /usr/local/bin/
COPY profiles /usr/local/share/wsonce/profiles
USER 10001:10001
STOPSIGNAL SIGTERM
EXPOSE 8080 9090
ENTRYPOINT ["wsonce"]
CMD ["--help"]
