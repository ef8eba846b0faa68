"""The audit at the end: owns the list of all ids that must be in the tables, and asks wsonce audit about them while the
fleet is still there."""
import asyncio
import json

from servers import RigError, start

DEADLINE_S = 120


class Audit:
    def __init__(self, rig):
        self.rig = rig
        self.base = f"{rig.directory}/sent"
        self.never_sent = f"{rig.run_prefix}-never-sent"    # must be missed, or the answer is worth nothing
        self.expect([self.never_sent])

    def expect(self, ids):
        with open(self.base, "a") as file:
            file.writelines(event_id + "\n" for event_id in ids)

    async def judge(self):
        with open(f"{self.base}.json", "wb") as out:
            command = self.rig.command("audit", "--expected", self.base, "--json", *self.rig.consumer_words())
            process = await start(command, f"{self.base}.log", stdout=out)
        await asyncio.wait_for(process.wait(), DEADLINE_S)
        with open(f"{self.base}.json") as file:
            text = file.read()
        if not text:
            raise RigError(f"wsonce audit said nothing, status {process.returncode}: see {self.base}.log")
        answer = json.loads(text)
        missing = set(answer["missing_ids"])
        for event_id in missing ^ {self.never_sent}:
            self.rig.verdict.find("audit_missing", event_id, ["never sent, and not missed"] * (event_id not in missing))
        self.rig.say(f"audit: {answer['expected']} ids, {answer['stored']} stored, {answer['dead_lettered']} dead letters, "
                     f"{answer['missing']} missing, of which one was never sent")
