# Stands in for the official image of Redis where no registry can be reached: Debian's server, run as given.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/*
CMD ["redis-server"]
