"""The receiver of webhooks: an HTTP server as users may run it. It verifies signatures, keeps the keys that it has seen,
and records what it has applied. In a mood, which a fault sets, it misbehaves at every other request."""
import asyncio
import base64
import collections
import json
import random
import time

from rig.receiver import Caller, is_signed
from rig.sockets import reset_socket, serve

SECRET = bytes(range(32))
SLOW_S = 3.5                    # longer than a listener's timeout and the claim TTL
TOLERANCE_S = 300               # for timestamps, as in the specification's libraries


class Receiver:
    def __init__(self, rig, seed):
        self.rig = rig
        self.random = random.Random(f"receiver {seed}")
        self.secret_file = f"{rig.directory}/secret"
        self.server = None
        self.port = 0
        self.mood = None                # fail, later, reset, hang or slow
        self.requests = self.repeats = self.misdeeds = 0
        self.keys = set()
        self.applied = collections.Counter()        # event id -> how often it was applied

    async def start(self):
        self.server, self.port = await serve(lambda: Caller(self.on_request))
        with open(self.secret_file, "w") as file:
            file.write("whsec_" + base64.b64encode(SECRET).decode())

    def on_request(self, caller, _, headers, body):
        self.requests += 1
        key = headers.get("idempotency-key", "")
        self.repeats += key in self.keys
        if not self.is_genuine(headers, body):
            self.rig.verdict.find("deliveries_unsigned", key or "no key", [str(headers), body.decode()])
            caller.answer(401)
            return
        mood = self.mood if self.random.random() < 0.5 else None
        self.misdeeds += mood is not None
        if mood not in ("fail", "later") and not (mood == "reset" and self.random.random() < 0.5):
            self.apply(key, body)
        self.end(caller, mood)

    def is_genuine(self, headers, body):
        identity, at, key = (headers.get(name, "") for name in ("webhook-id", "webhook-timestamp", "idempotency-key"))
        return is_signed(SECRET, headers, body) and identity == key and key and abs(int(at) - time.time()) < TOLERANCE_S

    def apply(self, key, body):
        """Applies a delivery, once for each key."""
        if key not in self.keys:
            self.keys.add(key)
            self.applied[json.loads(body)["id"]] += 1
            self.rig.outbox.on_applied(body)

    def end(self, caller, mood):
        """Ends a request. One that hangs ends when the listener gives up."""
        if mood == "fail":
            caller.answer(500)
        elif mood == "later":
            caller.answer(429, retry_after=1)
        elif mood == "reset":
            reset_socket(caller.transport)
        elif mood == "slow":
            asyncio.get_running_loop().call_later(SLOW_S, caller.answer, 200)
        elif mood is None:
            caller.answer(200)

    def close(self):
        if self.server:
            self.server.close()
