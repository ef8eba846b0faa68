"""A wsonce replay in the midst of the faults: owns its file, its process and what it said in the end."""
import asyncio
import json
import os
import signal

from ledger import last_lines
from servers import RigError, send_signal, start


class Replay:
    def __init__(self, rig, name, lines, *words, database="wsonce"):
        self.rig = rig
        self.database = database
        self.base = f"{rig.directory}/{name}"
        self.words = words
        self.process = None
        with open(f"{self.base}.ndjson", "wb") as file:
            file.writelines(line + b"\n" for line in lines)

    async def start(self):
        command = ["replay", f"{self.base}.ndjson", "--json", *self.words]
        with open(f"{self.base}.json", "wb") as file:
            self.process = await start(self.rig.command(*command, database=self.database), f"{self.base}.log", stdout=file)

    async def end(self, seconds):
        """Returns its summary; None if it did not end, which is a finding."""
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except asyncio.TimeoutError:
            send_signal(self.process.pid, signal.SIGKILL)
            self.rig.verdict.find("left_in_memory", f"wsonce replay did not end in {seconds} s",
                                  last_lines(f"{self.base}.log"))
            return None
        with open(f"{self.base}.json") as file:
            text = file.read()
        if not text:
            raise RigError(f"wsonce replay said nothing, status {self.process.returncode}: see {self.base}.log")
        for suffix in () if self.rig.options.keep else ("ndjson", "json", "log"):
            os.unlink(f"{self.base}.{suffix}")
        return json.loads(text)
