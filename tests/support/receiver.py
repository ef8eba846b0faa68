#!/usr/bin/env python3
"""A receiver of webhooks on loopback, which does with a request what its path says, and remembers each.

    receiver.py PORT SECRET [CERTIFICATE KEY [AUTHORITY]]

With AUTHORITY, clients must show a certificate that it has signed.

    /ok                 200
    /fail/STATUS/N      the first N attempts at a delivery are answered with that status
    /down/STATUS/N      the first N requests of all
    /bad/STATUS         deliveries of type bad are answered with that status, or never if it is 0; the others with 200
    /slow/SECONDS/N     the first N attempts at a delivery are answered after so long, the others at once
    /hold/N             the first N attempts at a delivery are answered after SIGUSR1, the others at once
    /hang/N             the first N attempts are not answered
    /reset/N            the first N attempts end with a reset
    /last/STATUS        that status after SIGUSR1, then a reset; then it prints a line
    /later/SECONDS      the first attempt is answered with 429 and Retry-After in seconds
    /date/SECONDS       the same with a date
    /extra/STATUS       that status, and after the next SIGUSR1 a 200 that nobody asked for; then it prints a line
    /record             200 whose body shares a write (over TLS, a record) with a 500 that nobody asked for
    /redirect           302 to /redirected
    /accents            400 and a body of an x and 1,000 é
    /echo               400 and a body with the request's target and x-key
    /huge               200 and a body of 8 MiB
    /endless/STATUS     that status, and a body that does not end

A path may go on with ?anything, to tell tests apart. GET /requests tells all requests as a JSON array; GET
/requests?path=P those to path P."""
import asyncio
import base64
import collections
import email.utils
import json
import signal
import ssl
import sys
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(1, f"{sys.path[0]}/..")

from rig.receiver import Caller, is_signed
from rig.sockets import reset_socket, serve


class Receiver:
    def __init__(self, secret):
        self.secret = base64.b64decode(secret.removeprefix("whsec_"))
        self.released = asyncio.Event()
        self.requests = []
        self.attempts = collections.Counter()       # of each (path, key)
        self.totals = collections.Counter()         # of each path
        self.tasks = set()

    def on_request(self, caller, line, headers, body):
        method, target, _ = line.split(" ")
        if method == "GET":
            self.tell(caller, target)
            return
        caller.target, caller.headers = target, headers
        task = asyncio.get_running_loop().create_task(self.play(caller, target.partition("?")[0], headers, body))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def tell(self, caller, target):
        wanted = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query).get("path")
        told = [request for request in self.requests if not wanted or request["path"] == wanted[0]]
        caller.answer(200, json.dumps(told).encode(), content_type="application/json")
        caller.transport.close()

    async def play(self, caller, path, headers, body):
        key = headers.get("idempotency-key", "")
        self.attempts[path, key] += 1
        self.totals[path] += 1
        number, total = self.attempts[path, key], self.totals[path]
        request = {"path": path, "key": key, "attempt": number, "at_ms": int(time.monotonic() * 1000), "headers": headers,
                   "body": body.decode(), "is_signed": is_signed(self.secret, headers, body), "is_answered": False,
                   "port": caller.transport.get_extra_info("peername")[1]}
        self.requests.append(request)
        how, *words = path.strip("/").split("/")
        if how == "bad":
            how, words = ("ok", []) if '"type":"bad"' not in body.decode() else \
                ("fail", [words[0], 999]) if words[0] != "0" else ("hang", [999])
        await getattr(self, "on_" + how)(caller, number, total, *words)
        request["is_answered"] = not caller.transport.is_closing()      # or the listener did not wait

    async def on_ok(self, caller, number, total):
        caller.answer(200)

    async def on_fail(self, caller, number, total, status, n):
        caller.answer(status if number <= int(n) else 200, b"no, says \xffthe receiver\x00")

    async def on_down(self, caller, number, total, status, n):
        caller.answer(status if total <= int(n) else 200, b"down")

    async def on_slow(self, caller, number, total, seconds, n):
        await asyncio.sleep(float(seconds) if number <= int(n) else 0)
        caller.answer(200)

    async def on_hold(self, caller, number, total, n):
        if number <= int(n):
            await self.released.wait()
        caller.answer(200)

    async def on_hang(self, caller, number, total, n):
        while number <= int(n) and not caller.transport.is_closing():
            await asyncio.sleep(0.05)   # until the listener gives up
        caller.answer(200)

    async def on_reset(self, caller, number, total, n):
        if number > int(n):
            caller.answer(200)
        else:
            reset_socket(caller.transport)

    async def on_last(self, caller, number, total, status):
        await self.released.wait()
        caller.answer(status)
        reset_socket(caller.transport)
        await asyncio.sleep(0)          # the socket is closed in the next turn
        print("extra", flush=True)

    async def on_later(self, caller, number, total, seconds):
        caller.answer(429 if number == 1 else 200, b"later", **({"retry_after": seconds} if number == 1 else {}))

    async def on_date(self, caller, number, total, seconds):
        date = email.utils.formatdate(time.time() + float(seconds), usegmt=True)
        caller.answer(503 if number == 1 else 200, b"later", **({"retry_after": date} if number == 1 else {}))

    async def on_extra(self, caller, number, total, status):
        caller.answer(status)
        await self.released.wait()      # or both would be read at once
        self.released.clear()
        caller.answer(200)
        print("extra", flush=True)

    async def on_record(self, caller, number, total):
        caller.write(b"HTTP/1.1 200 so\r\ncontent-length: 4\r\n\r\n")
        caller.write(b"bodyHTTP/1.1 500 extra\r\ncontent-length: 0\r\n\r\n")

    async def on_redirect(self, caller, number, total):
        caller.answer(302, location="/redirected")

    async def on_redirected(self, caller, number, total):
        caller.answer(200)

    async def on_accents(self, caller, number, total):
        caller.answer(400, ("x" + "é" * 1000).encode())

    async def on_echo(self, caller, number, total, *words):
        caller.answer(400, f"Cannot POST {caller.target} x-key: {caller.headers.get('x-key')}".encode())

    async def on_huge(self, caller, number, total):
        caller.answer(200, b"x" * (8 << 20))

    async def on_endless(self, caller, number, total, status):
        caller.write(f"HTTP/1.1 {status} so\r\ncontent-length: {1 << 40}\r\n\r\n".encode())
        while not caller.transport.is_closing():
            caller.write(b"and so on\n")
            await asyncio.sleep(0.05)

    async def on_heads(self, caller, number, total, status):
        """Without an end."""
        caller.write(f"HTTP/1.1 {status} so\r\n".encode())
        await self.write_lines(caller)

    async def on_trailers(self, caller, number, total, status):
        caller.write(f"HTTP/1.1 {status} so\r\ntransfer-encoding: chunked\r\n\r\n0\r\n".encode())
        await self.write_lines(caller)

    async def on_extension(self, caller, number, total, status):
        caller.write(f"HTTP/1.1 {status} so\r\ntransfer-encoding: chunked\r\n\r\n1;".encode())
        await self.write_lines(caller, b"and so on")

    async def write_lines(self, caller, line=b"and-so: on\r\n"):
        while not caller.transport.is_closing():
            caller.write(line * 1000)
            await asyncio.sleep(0.01)


async def main(port, secret, *certificate):
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate[:2])
    if certificate[2:]:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate[2])
    receiver = Receiver(secret)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, receiver.released.set)
    server, _ = await serve(lambda: Caller(receiver.on_request), port, context)
    await server.serve_forever()


asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
