"""The events of a round that the handler never takes: owns making them, and their way in, which is wsonce replay in the
midst of the faults. It gives up on an event after two attempts, which the listeners must not: faults would make dead
letters."""
import asyncio
import json
import os
import signal

from ledger import last_lines
from servers import RigError, send_signal, start

TYPE = "order.refused"
COUNT = 20


class Marked:
    def __init__(self, book):
        self.rig = book.rig
        self.base = f"{book.rig.directory}/{book.feed_prefix}-marked"
        self.process = None
        for n in range(COUNT):
            text = f'{{"event_id":"{book.feed_prefix}-r{n}","event_type":"{TYPE}","payload":{{}}}}'
            book.marked.add(text.encode())
        with open(f"{self.base}.ndjson", "wb") as file:
            file.writelines(text + b"\n" for text in book.marked)

    async def start(self):
        command = self.rig.command("replay", f"{self.base}.ndjson", "--max-attempts", "2", "--json", "--handler",
                                   self.rig.effects.handler, "--config", self.rig.listeners[0].config)
        with open(f"{self.base}.json", "wb") as out:
            self.process = await start(command, f"{self.base}.log", stdout=out)

    async def end(self, seconds):
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except asyncio.TimeoutError:
            send_signal(self.process.pid, signal.SIGKILL)
            self.rig.verdict.find("left_in_memory", f"wsonce replay did not end in {seconds} s",
                                  last_lines(f"{self.base}.log"))
            return
        with open(f"{self.base}.json") as file:
            text = file.read()
        if not text:
            raise RigError(f"wsonce replay said nothing, status {self.process.returncode}: see {self.base}.log")
        rejected = json.loads(text)["rejected"]
        if rejected != COUNT:
            self.rig.verdict.find("unexpected", f"{self.base}: {rejected} of {COUNT} events were rejected")
        for suffix in () if self.rig.options.keep else ("ndjson", "json", "log"):
            os.unlink(f"{self.base}.{suffix}")
