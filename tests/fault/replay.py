"""A wsonce replay during the faults: owns its file, its process and its summary."""
from rig.process import Process


class Replay(Process):
    def __init__(self, rig, name, lines, *words, database="wsonce"):
        super().__init__(f"{rig.directory}/{name}")
        self.rig = rig
        self.database = database
        self.words = words
        with open(f"{self.base}.ndjson", "wb") as file:
            file.writelines(line + b"\n" for line in lines)

    async def start(self):
        await self.launch_to_tell(self.rig.command("replay", f"{self.base}.ndjson", "--json", *self.words,
                                                   database=self.database))

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
