"""A cell of the table: one deployment, one fault. Owns its servers and listeners, and judges what is said before, during
and after the fault."""
import asyncio
import collections
import inspect
import json
import os
import re
import time

import rig.listener
from deployments import PROGRAM, File, Server
from feed import Feed
from hook import Hook
from rig.process import clean_environment
from rig.waiting import SLOW, comes_true

BEGIN_S = 30 * SLOW                     # from the start of listeners until all is well
LATE = r"has been (unsettled|pending) for ([6-9]|\d\d)\d s$"      # of --unsettled-warning: true of any fault that lasts
STORED_S = 20 * SLOW
LOG_LINE = re.compile(r'level=(?:warn|error) .*?event="([^"]*)"(?:.* reason="(127[\d.:]+): )?')     # event, server


class Wrong(Exception):
    """What is said is untrue, or not said."""


class Listener(rig.listener.Listener):
    """One listener. consumer: its fleet, or ""."""

    def __init__(self, base, consumer):
        super().__init__(base)
        self.consumer = consumer
        self.told = 0                   # where its log had its end when the fault began, or ended

    def news(self):
        return self.log()[self.told:]

    async def ready(self):
        """Returns status and text of /readyz."""
        head, _, text = (await self.page("/readyz")).partition("\r\n\r\n")
        return f"{head.split(' ')[1] if ' ' in head else 'no answer'} {text.strip()}"


class Cell:
    def __init__(self, name, how, fault, directory, library):
        self.name, self.how, self.fault, self.directory = name, how, fault, directory
        self.store = File(directory, library) if how.is_file else Server(directory, how)
        self.redis = how.redis and (how.redis(self) if hasattr(how.redis, "masters") else how.redis(directory))
        self.feed = Feed(how.is_acked)
        self.hook = Hook()
        self.listeners = [Listener(f"{directory}/{consumer or 'web'}-{n}", consumer)
                          for consumer in how.consumers for n in range(1, how.listeners + 1)]
        self.of = any if how.is_one_idle else fault.of
        self.victim = None
        self.began = 0.0

    # ---- its life ----

    async def start(self):
        await self.feed.start()
        await self.hook.accept()
        if self.redis:
            await self.redis.start()
        await self.store.prepare(self.redis)
        with open(f"{self.directory}/feed.json", "w") as file:
            json.dump(self.feed.profile(self.how.lines, self.how.members), file)
        with open(f"{self.directory}/wsonce.json", "w") as file:
            json.dump(self.hook.config() if self.how.has_hook else {}, file)
        for listener in self.listeners:
            await self.start_listener(listener)

    async def start_listener(self, listener):
        more = ["--consumer", listener.consumer] if listener.consumer else []
        await listener.launch([PROGRAM, "listen", "--instance-id", listener.name, "--admin", f"unix:{listener.admin}", "--feed",
                               f"{self.directory}/feed.json", "--config", f"{self.directory}/wsonce.json", *self.store.words,
                               *self.how.options, *more],
                              env={**self.store.env, "LISTENER": listener.name, "HOOK_SECRET": Hook.SECRET})

    async def stop(self):
        for listener in self.listeners:
            await listener.kill()
        self.feed.stop()
        self.hook.refuse()
        await self.store.stop()
        if self.redis:
            await self.redis.stop()

    async def do(self, step):
        for listener in self.listeners:
            listener.told = len(listener.log())
        done = step(self)
        if inspect.isawaitable(done):
            await done
        self.began = time.monotonic()

    # ---- what is said ----

    async def status(self, *options):
        """Returns the exit status of wsonce status and what it prints."""
        process = await asyncio.create_subprocess_exec(
            PROGRAM, "status", *self.store.words, *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env={**clean_environment(), **self.store.env})
        printed = (await process.communicate())[0].decode()
        return process.returncode, printed

    async def look(self):
        """Returns the exit status, the problems, /readyz of each listener but the victim, and the names that status calls alive."""
        (code, printed), *pages = await asyncio.gather(self.status("--json"), *(one.ready() for one in self.others()))
        try:
            state = json.loads(printed)
        except ValueError:
            raise Wrong(f"status --json prints {printed[:300]}") from None
        if state["status"] != ("ok", "degraded", "down")[code]:
            raise Wrong(f"status ends with {code} and says {state['status']}")
        alive = {one["name"] for one in state["listeners"] if one["is_alive"]}
        return code, state["problems"], pages, alive

    def others(self):
        return [one for one in self.listeners if one.is_alive and not (self.fault.is_on_listener and one is self.victim)]

    def wrong(self, when, what):
        return Wrong(f"{when}, after {time.monotonic() - self.began:.1f} s: {what}")

    async def become_well(self, when, seconds, may_say):
        """Waits until all is well, twice in a row."""
        well, seen = 0, None
        while well < 2:
            seen = code, problems, pages, alive = await self.look()
            self.check_blame(when, problems, may_say)
            well = well + 1 if (code == 0 and alive == {one.name for one in self.listeners}
                               and all(page == "200 ready" for page in pages)) else 0
            if time.monotonic() - self.began > seconds:
                raise self.wrong(when, f"not well yet: {seen}")
            await asyncio.sleep(0.5)

    def check_blame(self, when, problems, may_say):
        for problem in problems:
            if not re.search(f"{may_say}|{LATE}", problem):
                raise self.wrong(when, f"status blames another: {problem}")

    async def suffer(self):
        """Watches until the fault is over."""
        fault, printed = self.fault, ""
        while (now := time.monotonic()) < self.began + fault.lasts_s:
            code, problems, pages, alive = await self.look()
            self.check_blame("during", problems, f"{fault.says}|{fault.also}")
            if now > self.began + fault.within_s * SLOW:
                if code not in fault.exits or not any(re.search(fault.says, problem) for problem in problems):
                    raise self.wrong("during", f"status ends with {code} and says {problems}")
                if not self.of(re.search(fault.ready, page) for page in pages):
                    raise self.wrong("during", f"/readyz: {pages}")
                if alive and alive != {one.name for one in self.others()}:
                    raise self.wrong("during", f"status takes {sorted(alive)} for alive")
                if not printed:
                    code, printed = await self.status()
                    if code not in fault.exits or not re.search(fault.says, " ".join(printed.split())):
                        raise self.wrong("during", f"status as text ends with {code}: {printed}")
            await asyncio.sleep(0.5)

    def check_log(self):
        most = 2 + self.fault.lasts_s / 30
        if not self.has_logged(self.fault.log):
            raise self.wrong("during", f"not logged: {self.fault.log}")
        for listener in self.others():
            for event, count in collections.Counter(LOG_LINE.findall(listener.news())).items():
                if count > most:
                    raise self.wrong("during", f"{listener.name} logs {count} times: {' '.join(event)}")

    def has_logged(self, pattern):
        return self.of(re.search(pattern, one.news()) for one in self.others())

    async def check_end(self):
        if not await comes_true(lambda: self.has_logged(self.fault.log_end), 45 * SLOW, 0.5):
            raise self.wrong("after", f"not logged: {self.fault.log_end}")

    async def check_rows(self):
        self.feed.mood = "silent"
        for fleet, sent in self.feed.sent.items():
            async def is_all_there():
                return sorted(await self.store.ids(fleet)) == sorted(sent)
            if not await comes_true(is_all_there, STORED_S, 0.5):
                ids = await self.store.ids(fleet)
                raise Wrong(f"{len(sent)} events sent to {fleet}, {len(ids)} rows of {len(set(ids))}; "
                            f"{len(sent - set(ids))} are missing: {sorted(sent - set(ids))[:5]}")

        if self.how.has_hook and not await comes_true(lambda: self.hook.got == sent, STORED_S):
            raise Wrong(f"{len(sent - self.hook.got)} events were not delivered")

    async def play(self):
        self.began = time.monotonic()
        await self.start()
        await self.become_well("before", BEGIN_S, ".")
        for listener in self.listeners:
            if re.search(r"level=(warn|error) (?!.*WSONCE_DISK)", listener.log()):
                raise self.wrong("before", f"{listener.name} warns: {listener.log()[-600:]}")
        names = {line.listener for line in self.feed.lines}
        self.victim = next(one for one in self.listeners if one.name in names)
        await self.do(self.fault.begin)
        await self.suffer()
        self.check_log()
        await self.do(self.fault.end)
        await self.become_well("after", self.fault.back_s * SLOW, f"{self.fault.says}|{self.fault.also}|is connecting$")
        await self.check_end()
        await self.check_rows()


async def play(name, how, fault, directory, library):
    """Returns what is wrong, or None."""
    os.makedirs(directory)
    os.chmod(directory, 0o755)
    cell = Cell(name, how, fault, directory, library)
    try:
        await cell.play()
    except (Wrong, AssertionError) as error:
        return str(error)
    finally:
        await cell.stop()
    return None
