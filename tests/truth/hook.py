"""The receiver of the webhook of a cell: it can refuse, and knows which events it has got."""
import json

from rig.receiver import Caller
from rig.sockets import free_port, serve


class Hook:
    SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

    def __init__(self):
        self.port = free_port()
        self.server = None
        self.status = 200
        self.callers = []
        self.got = set()

    def config(self, url):
        return {"webhooks": [{"name": "hook", "url": f"{url}/", "secret-env": "HOOK_SECRET",
                              "backoff-cap": 4}]}

    async def accept(self):
        self.server, _ = await serve(self.caller, self.port)

    def caller(self):
        self.callers.append(Caller(self.take))
        return self.callers[-1]

    def take(self, caller, _first, _headers, body):
        if self.status == 200:
            self.got.add(json.loads(body)["id"])
        caller.answer(self.status)

    def refuse(self):
        self.server.close()
        for caller in self.callers:
            caller.transport.abort()
