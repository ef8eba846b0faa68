"""The audit at the end: owns the list of all ids that must be in the tables, and runs wsonce audit on them while the fleet
still runs."""
from rig.process import Process

DEADLINE_S = 120


class Audit(Process):
    def __init__(self, rig):
        super().__init__(f"{rig.directory}/sent")
        self.rig = rig
        self.never_sent = f"{rig.run_prefix}-never-sent"    # the audit must miss it, or it proves nothing
        self.expect([self.never_sent])

    def expect(self, ids):
        with open(self.base, "a") as file:
            file.writelines(event_id + "\n" for event_id in ids)

    async def judge(self):
        await self.launch_to_tell(self.rig.command("audit", "--expected", self.base, "--json", *self.rig.consumer_words()))
        if not await self.ends(DEADLINE_S):
            self.fail(f"did not end within {DEADLINE_S} s")
        answer = self.told()
        missing = set(answer["missing_ids"])
        for event_id in missing ^ {self.never_sent}:
            self.rig.verdict.find("audit_missing", event_id, ["never sent, and not missed"] * (event_id not in missing))
        self.rig.say(f"audit: {answer['expected']} ids, {answer['stored']} stored, {answer['dead_lettered']} dead letters, "
                     f"{answer['missing']} missing, of which one was never sent")
