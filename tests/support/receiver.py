#!/usr/bin/env python3
"""A receiver of webhooks on loopback, which does with a request what its path says, and remembers each.

    receiver.py PORT SECRET [CERTIFICATE KEY]

    /ok                 200
    /fail/STATUS/N      the first N attempts at a delivery are answered with that status
    /down/STATUS/N      the first N requests of all
    /slow/SECONDS/N     the first N attempts at a delivery are answered after so long, the others at once
    /hold/N             the first N attempts at a delivery are answered after SIGUSR1, the others at once
    /hang/N             the first N attempts are not answered
    /reset/N            the first N attempts end with a reset
    /later/SECONDS      the first attempt is answered with 429 and Retry-After in seconds
    /date/SECONDS       the same with a date
    /extra/STATUS       that status, and after the next SIGUSR1 a 200 that nobody asked for; then it prints a line
    /redirect           302 to /redirected
    /accents            400 and a body of an x and 1,000 é
    /huge               200 and a body of 8 MiB
    /endless/STATUS     that status, and a body that does not end

A path may go on with ?anything, to tell tests apart. GET /requests tells all requests as a JSON array; GET
/requests?path=P those to path P."""
import base64
import email.utils
import http.server
import json
import signal
import ssl
import sys
import threading
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(1, f"{sys.path[0]}/..")

from rig.sockets import reset_at_close
from rig.webhook import is_signed

PORT, SECRET = int(sys.argv[1]), base64.b64decode(sys.argv[2].removeprefix("whsec_"))
lock = threading.Lock()
released = threading.Event()
requests = []
attempts = {}  # (path, key) -> how many
totals = {}    # path -> how many


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        with lock:
            told = [r for r in requests if r["path"] == query.get("path", [r["path"]])[0]]
            body = json.dumps(told).encode()
        self.answer(200, body, [("content-type", "application/json")])

    def note(self, path, body):
        key = self.headers.get("idempotency-key", "")
        with lock:
            number = attempts[path, key] = attempts.get((path, key), 0) + 1
            total = totals[path] = totals.get(path, 0) + 1
            request = {"path": path, "key": key, "attempt": number, "at_ms": int(time.monotonic() * 1000),
                       "headers": {name.lower(): value for name, value in self.headers.items()},
                       "body": body.decode(), "is_signed": is_signed(SECRET, self.headers, body), "is_answered": False}
            requests.append(request)
        return request, number, total

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self.path.split("?")[0]
        request, number, total = self.note(path, body)
        how, *words = path.strip("/").split("/")
        try:
            getattr(self, "on_" + how)(number, total, *words)
            request["is_answered"] = True
        except OSError:
            self.close_connection = True  # the listener did not wait

    def on_ok(self, number, total):
        self.answer(200)

    def on_fail(self, number, total, status, n):
        self.answer(int(status) if number <= int(n) else 200, b"no, says \xffthe receiver\x00")

    def on_down(self, number, total, status, n):
        self.answer(int(status) if total <= int(n) else 200, b"down")

    def on_slow(self, number, total, seconds, n):
        if number <= int(n):
            time.sleep(float(seconds))
        self.answer(200)

    def on_hold(self, number, total, n):
        if number <= int(n):
            released.wait(600)
        self.answer(200)

    def on_hang(self, number, total, n):
        if number > int(n):
            self.answer(200)
            return
        self.connection.settimeout(600)
        self.rfile.read(1)  # until the listener gives up
        self.close_connection = True

    def on_reset(self, number, total, n):
        if number > int(n):
            self.answer(200)
            return
        reset_at_close(self.connection)
        for file in self.rfile, self.wfile, self.connection:  # the last one that is closed closes the socket
            file.close()
        raise OSError("reset")

    def on_later(self, number, total, seconds):
        self.answer(429 if number == 1 else 200, b"later", [("retry-after", seconds)] if number == 1 else [])

    def on_date(self, number, total, seconds):
        date = email.utils.formatdate(time.time() + float(seconds), usegmt=True)
        self.answer(503 if number == 1 else 200, b"later", [("retry-after", date)] if number == 1 else [])

    def on_extra(self, number, total, status):
        self.answer(int(status))
        released.wait(600)  # or both would be read at once
        released.clear()
        self.answer(200)
        print("extra", flush=True)

    def on_redirect(self, number, total):
        self.answer(302, b"", [("location", "/redirected")])

    def on_redirected(self, number, total):
        self.answer(200)

    def on_accents(self, number, total):
        self.answer(400, ("x" + "é" * 1000).encode())

    def on_huge(self, number, total):
        self.answer(200, b"x" * (8 << 20))

    def on_endless(self, number, total, status):
        self.send_response(int(status))
        self.send_header("content-length", str(1 << 40))
        self.end_headers()
        while True:
            self.wfile.write(b"and so on\n")
            self.wfile.flush()
            time.sleep(0.05)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


signal.signal(signal.SIGUSR1, lambda *_: released.set())
server = Server(("127.0.0.1", PORT), Handler)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
