# The builder has the compiler; the image that runs has the program and the libraries it needs.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make pkg-config libwebsockets-dev \
	libmicrohttpd-dev libhiredis-dev libuv1-dev libpq-dev libjansson-dev libyajl-dev libssl-dev libsodium-dev libcurl4-openssl-dev libunistring-dev libwslay-dev uthash-dev \
	&& rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile ./
COPY listener listener
COPY loadtest loadtest
COPY lua lua
COPY sql sql
RUN make -j2 programs && strip build/wsonce build/wsonce-source build/wsonce-producer

FROM debian:bookworm-slim
# libwebsockets-evlib-uv is loaded at run time, so no linker asks for it.
RUN apt-get update && apt-get install -y --no-install-recommends libwebsockets17 libwebsockets-evlib-uv libhiredis0.14 \
	libmicrohttpd12 libuv1 libpq5 libjansson4 libyajl2 libssl3 libsodium23 libcurl4 libunistring2 libwslay1 ca-certificates curl && rm -rf /var/lib/apt/lists/* \
	&& useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin wsonce
COPY --from=build /src/build/wsonce /src/build/wsonce-source /src/build/wsonce-producer /usr/local/bin/
USER 10001:10001
STOPSIGNAL SIGTERM
EXPOSE 8080 9090
ENTRYPOINT ["wsonce"]
CMD ["--help"]
