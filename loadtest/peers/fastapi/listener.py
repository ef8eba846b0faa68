#!/usr/bin/python3
"""The FastAPI design that wsonce replaces: an application whose start-up task dials the feed and handles one event
at a time, or with --batch all that have arrived meanwhile. See ../README.md."""
import argparse
import asyncio
import json
import logging
import os
import random
import shlex
import signal
import socket
import sys

sys.dont_write_bytecode = True

import asyncpg
import uvicorn
import websockets
from fastapi import FastAPI
from redis import asyncio as redis_client
from redis.asyncio.connection import UnixDomainSocketConnection

from batched import BatchedRoad
from road import Road

PROGRESS_S = 0.1
DRAIN_S = 10
BACKOFF_S = 0.1, 5                  # shortest and longest
# redis 4.3 names both in the text of an error, and has none for a unix socket.
UnixDomainSocketConnection.host, UnixDomainSocketConnection.port = "unix", 0


def complain(sentence):
    print(f"listener.py: {sentence}", file=sys.stderr, flush=True)


def say(what):
    print(json.dumps(what), flush=True)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        complain(message)
        sys.exit(2)


def whole_seconds(text):
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def read_options():
    parser = Parser(description="A listener as one would write it with FastAPI.")
    for name in ("--source", "--redis", "--postgres", "--instance"):
        parser.add_argument(name, required=True)
    parser.add_argument("--claim-ttl", type=whole_seconds, default=30, metavar="S")
    parser.add_argument("--dedup-window", type=whole_seconds, default=300, metavar="S")
    parser.add_argument("--http", default="127.0.0.1:0", metavar="ADDR:PORT", help="where /healthz is; port 0 = any")
    parser.add_argument("--batch", action="store_true", help="claim, store and mark in batches")
    return parser.parse_args()


def read_conninfo(text):
    """Turns libpq's key=value pairs into asyncpg's arguments."""
    words = dict(word.split("=", 1) for word in shlex.split(text))
    if "dbname" in words:
        words["database"] = words.pop("dbname")
    return words


async def prepare_connection(connection):
    """COPY is in binary form, where a jsonb is a 1 and the text."""
    await connection.set_type_codec("jsonb", schema="pg_catalog", format="binary",
                                    encoder=lambda text: b"\x01" + text.encode(), decoder=lambda data: data[1:].decode())


class Listener:
    """The feed's connection and the tasks of the application."""

    def __init__(self, options):
        self.options = options
        self.road = None
        self.pool = None
        self.redis = None
        self.websocket = None
        self.is_ready = False
        self.is_stopping = False
        self.status = 0                 # exit status
        self.last = ""                  # progress that was printed last
        self.tasks = []

    async def start(self):
        try:
            self.redis = redis_client.from_url(self.options.redis, decode_responses=True, socket_timeout=10)
            self.pool = await asyncpg.create_pool(**read_conninfo(self.options.postgres), min_size=2, max_size=2,
                                                  timeout=10, init=prepare_connection)
        except (asyncpg.PostgresError, OSError, asyncio.TimeoutError, TypeError, ValueError) as error:
            complain(f"cannot start ({error}): look at --redis and --postgres")
            self.status = 1
            raise
        self.road = (BatchedRoad if self.options.batch else Road)(self.redis, self.pool, self.options, complain)
        self.tasks = [asyncio.create_task(task) for task in
                      (self.listen(), self.road.work(), self.show_progress())]
        for task in self.tasks:
            task.add_done_callback(self.on_end)

    def on_end(self, task):
        """A task that fails ends the process, which would otherwise run without it."""
        if not task.cancelled() and task.exception():
            complain(f"cannot go on ({task.exception()!r})")
            os._exit(1)

    async def listen(self):
        failures = 0
        while not self.is_stopping:
            try:
                # No pings: the answer would arrive after all messages that were not read yet.
                async with websockets.connect(self.options.source, compression=None, ping_interval=None,
                                              close_timeout=0.5, max_size=64 << 20) as websocket:
                    failures = 0
                    await self.read(websocket)
                    why = "it has ended"
            except (OSError, asyncio.TimeoutError, websockets.WebSocketException) as error:
                why = str(error) or type(error).__name__
            if self.is_stopping:
                return
            if failures == 0:
                complain(f"the connection to {self.options.source} failed ({why}), trying again")
            failures += 1
            await asyncio.sleep(random.random() * min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** min(failures, 10)))

    async def read(self, websocket):
        self.websocket = websocket
        if not self.is_ready:
            self.is_ready = True
            say({"ready": True})
        async for message in websocket:
            await self.road.handle(message)
            if self.is_stopping:
                return

    async def show_progress(self):
        while True:
            await asyncio.sleep(PROGRESS_S)
            self.tell()

    def tell(self):
        now = json.dumps(self.road.counts)
        if now != self.last:
            self.last = now
            print(now, flush=True)

    async def stop(self):
        """Finishes the events in memory, within DRAIN_S."""
        listening, working, showing = self.tasks
        self.is_stopping = True
        self.road.stop()
        try:
            await asyncio.wait_for(self.finish(listening, working), DRAIN_S)
        except asyncio.TimeoutError:
            self.status = 1
            complain(f"{self.road.left()} events were left after {DRAIN_S} s")
        showing.cancel()
        self.tell()
        self.pool.terminate()
        await self.redis.close()

    async def finish(self, listening, working):
        if self.websocket:
            self.websocket.transport.abort()    # other listeners have copies of unread messages
        await asyncio.wait([listening, working])
        await self.road.drain()


def make_app(listener):
    app = FastAPI()

    @app.on_event("startup")
    async def start():
        await listener.start()

    @app.on_event("shutdown")
    async def stop():
        await listener.stop()

    @app.get("/healthz")
    async def healthz():
        return {"status": "ok", **listener.road.counts}

    return app


def main():
    options = read_options()
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    address, _, port = options.http.rpartition(":")
    try:
        door = socket.create_server((address, int(port)))
    except (OSError, ValueError) as error:
        complain(f"--http {options.http} cannot be opened ({error})")
        sys.exit(2)
    listener = Listener(options)
    server = uvicorn.Server(uvicorn.Config(make_app(listener), access_log=False, log_config=None))
    print(f"listening on http://{address}:{door.getsockname()[1]}/healthz", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn from 0.29 raises it once more when all is done
    server.run(sockets=[door])
    sys.exit(listener.status)


if __name__ == "__main__":
    main()
