"""A wsonce replay during the faults: owns its file, its process and its summary."""
from rig.process import Process
from rig.waiting import wait_until

BEGIN_S = 60
CONNECTIONS = 2                 # the command's own, which ends it if it fails; then that of the pipeline


class Replay(Process):
    def __init__(self, rig, name, lines, *words, database="wsonce"):
        super().__init__(f"{rig.directory}/{name}")
        self.rig = rig
        self.database = database
        self.words = words
        with open(f"{self.base}.ndjson", "wb") as file:
            file.writelines(line + b"\n" for line in lines)

    async def start(self):
        """Returns when it feeds: a command that does not find Postgres when it begins says so and ends."""
        await self.launch_to_tell(self.rig.command("replay", f"{self.base}.ndjson", "--json", *self.words,
                                                   database=self.database), env={"PGAPPNAME": self.name})
        await wait_until(self.has_begun, BEGIN_S, f"{self.name} has begun")

    async def has_begun(self):
        count = await self.rig.postgres.sql(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{self.name}'")
        return self.is_over or int(count) >= CONNECTIONS

    async def finish(self, seconds):
        """Returns its summary; None if it did not end, which is a finding."""
        if not await self.ends(seconds):
            await self.kill()
            self.rig.verdict.find("left_in_memory", f"wsonce replay did not end in {seconds} s", self.last_words())
            return None
        summary = self.told()
        if not self.rig.options.keep:
            self.remove_files("ndjson", "json", "log")
        return summary
