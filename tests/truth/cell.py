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
from feed import EVERY_S, Feed
from hook import Hook
from proxy import Link
from rig.process import clean_environment
from rig.sockets import free_port
from rig.waiting import SLOW, comes_true

BEGIN_S = 30 * SLOW                     # from the start of listeners until all is well
LATE = r"has been (unsettled|pending) for ([6-9]|\d\d)\d s$"      # of --unsettled-warning: true of any fault that lasts
STORED_S = 20 * SLOW
BLAME = re.compile(r"level=(warn|error) (?!.*(WSONCE_DISK|sequence numbers of a source are missing)).*")
LOG_LINE = re.compile(r'level=(?:warn|error) .*?event="([^"]*)"(?:.* reason="(127[\d.:]+): )?')     # event, server


class Wrong(Exception):
    """What is said is untrue, or not said."""


class Listener(rig.listener.Listener):
    """One listener. consumer: its fleet, or ""."""

    def __init__(self, base, consumer):
        super().__init__(base)
        self.consumer = consumer
        self.told = 0                   # where its log had its end when the fault began, or ended
        self.env = {}
        self.links = {}                 # its own ways to the servers, by name, if the fault is of one listener

    def news(self):
        return self.log()[self.told:]

    async def ready(self):
        """Returns status and text of /readyz."""
        head, _, text = (await self.page("/readyz")).partition("\r\n\r\n")
        return f"{head.split(' ')[1] if ' ' in head else 'no answer'} {text.strip()}"


class Cell:
    def __init__(self, name, how, fault, directory, libraries):
        self.name, self.how, self.fault, self.directory = name, how, fault, directory
        self.store = File(directory, libraries["disk"]) if how.is_file else Server(directory, how)
        self.redis = how.redis and (how.redis(self) if hasattr(how.redis, "masters") else how.redis(directory))
        self.libraries = libraries
        self.words = []                 # of the listeners, for their servers
        self.feed = Feed(how.is_acked, how.has_holes)
        self.hook = Hook()
        self.listeners = [Listener(f"{directory}/{consumer or 'web'}-{n}", consumer)
                          for consumer in how.consumers for n in range(1, how.listeners + 1)]
        if fault.needs_redis and not how.redis:
            self.fault = fault._replace(exits=(0, *fault.exits))
        self.of = any if how.is_one_idle else fault.of
        self.victim = None
        self.has_left = False
        self.began = 0.0

    # ---- its life ----

    async def start(self):
        await self.feed.start()
        await self.hook.accept()
        if self.redis:
            await self.redis.start()
        await self.store.prepare(self.redis)
        self.words = self.store.words
        if self.fault.is_of_one:
            await self.part()
        http = f"http://http.test:{self.ports['http']}" if self.fault.is_of_one else f"http://127.0.0.1:{self.http_port()}"
        host = "feed.test" if self.fault.is_of_one else "127.0.0.1"
        with open(f"{self.directory}/feed.json", "w") as file:
            json.dump(self.feed.profile(host, http, self.how.lines, self.how.members), file)
        with open(f"{self.directory}/wsonce.json", "w") as file:
            json.dump(self.hook.config(http) if self.how.has_hook else {}, file)
        for listener in self.listeners:
            await self.start_listener(listener)

    def http_port(self):
        return self.hook.port if self.how.has_hook else self.feed.port

    async def part(self):
        """Gives each listener its own ways to the servers. All have the same settings, whose names mean another address to
        each (slow_names.c)."""
        servers = {"feed": ("127.0.0.1", self.feed.port), "http": ("127.0.0.1", self.http_port()), "postgres": self.store.socket,
                   **({"redis": self.redis.socket} if self.redis else {})}
        self.ports = {name: self.feed.port if name == "feed" else free_port() for name in servers}
        for n, listener in enumerate(self.listeners, 2):
            listener.env = {"LD_PRELOAD": self.libraries["names"], "NAMES_ADDRESS": f"127.0.0.{n}",
                            "NAMES_MUTE": f"{listener.base}.mute"}
            for name, target in servers.items():
                listener.links[name] = await Link(name, lambda target=target: target).open(self.ports[name], f"127.0.0.{n}")
        self.words = ["--postgres", f"{self.store.words[1]} host=db.test port={self.ports['postgres']}",
                      "--redis", f"redis://redis.test:{self.ports['redis']}" if self.redis else "none"]

    async def start_listener(self, listener):
        more = ["--consumer", listener.consumer] if listener.consumer else []
        await listener.launch([PROGRAM, "listen", "--instance-id", listener.name, "--admin", f"unix:{listener.admin}", "--feed",
                               f"{self.directory}/feed.json", "--config", f"{self.directory}/wsonce.json", *self.words,
                               *self.how.options, *more],
                              env={**self.store.env, **listener.env, "LISTENER": listener.name, "HOOK_SECRET": Hook.SECRET})

    async def stop(self):
        for listener in self.listeners:
            await listener.kill()
            for link in listener.links.values():
                link.close()
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
        """Returns the exit status, the problems, /readyz of the others() by name, and the names that status calls alive."""
        asked = self.others()
        (code, printed), *pages = await asyncio.gather(self.status("--json"), *(one.ready() for one in asked))
        try:
            state = json.loads(printed)
        except ValueError:
            raise Wrong(f"status --json prints {printed[:300]}") from None
        if state["status"] != ("ok", "degraded", "down")[code]:
            raise Wrong(f"status ends with {code} and says {state['status']}")
        alive = {one["name"] for one in state["listeners"] if one["is_alive"]}
        return code, state["problems"], dict(zip((one.name for one in asked), pages)), alive

    def others(self):
        return [one for one in self.listeners if one.is_alive and not (self.fault.is_on_listener and one is self.victim)]

    def judged(self):
        return [self.victim] if self.fault.is_of_one else self.others()

    def named(self, pattern):
        return pattern.replace("VICTIM", self.victim.name if self.victim else "")

    def wrong(self, when, what):
        return Wrong(f"{when}, after {time.monotonic() - self.began:.1f} s: {what}")

    async def become_well(self, when, seconds, may_say):
        """Waits until all is well, twice in a row."""
        well, seen = 0, None
        while well < 2:
            seen = code, problems, pages, alive = await self.look()
            self.check_blame(when, problems, may_say)
            well = well + 1 if (code == 0 and alive == {one.name for one in self.listeners}
                               and all(page == "200 ready" for page in pages.values())) else 0
            if time.monotonic() - self.began > seconds:
                raise self.wrong(when, f"not well yet: {seen}")
            await asyncio.sleep(0.5)

    def check_blame(self, when, problems, may_say):
        for problem in problems:
            if not re.search(self.named(f"{may_say}|{LATE}"), problem):
                raise self.wrong(when, f"status blames another: {problem}")

    async def suffer(self):
        """Watches until the fault is over."""
        fault, printed, says, before = self.fault, "", self.named(self.fault.says), None
        while (now := time.monotonic()) < self.began + fault.lasts_s:
            code, problems, pages, alive = await self.look()
            self.check_blame("during", problems, f"{fault.says}|{fault.also}")
            if fault.is_of_one and not before and now > self.began + fault.lasts_s - fault.others_s * SLOW:
                before = {fleet: set(sent) for fleet, sent in self.feed.sent.items()}
            if now > self.began + fault.within_s * SLOW:
                if fault.is_of_one:
                    self.check_others(pages)
                if not self.leaves(pages):
                    self.check_said(code, problems, pages)
                if alive and alive != {one.name for one in self.others()} and not fault.is_of_one:
                    raise self.wrong("during", f"status takes {sorted(alive)} for alive")
                if not printed and not self.has_left:
                    code, printed = await self.status()
                    if code not in fault.exits or code and not re.search(says.lstrip("^"), " ".join(printed.split())):
                        raise self.wrong("during", f"status as text ends with {code}: {printed}")
            await asyncio.sleep(0.5)
        if before:
            await self.check_stored(before)

    def check_said(self, code, problems, pages):
        fault, says = self.fault, self.named(self.fault.says)
        if code not in fault.exits or code and not any(re.search(says, problem) for problem in problems):
            raise self.wrong("during", f"status ends with {code} and says {problems}")
        if not self.of(re.search(fault.ready, pages[one.name]) for one in self.judged()):
            raise self.wrong("during", f"/readyz: {pages}")

    def check_others(self, pages):
        for one in self.others():           # which may be about to take the feed over
            if one is not self.victim and pages[one.name] not in ("200 ready", "503 not ready: source feed: connecting"):
                raise self.wrong("during", f"/readyz of {one.name}, which is well: {pages[one.name]}")

    def leaves(self, pages):
        """Returns whether the victim has left the feed that it cannot reach to another listener: it stands by, and says
        nothing."""
        self.has_left |= (self.fault.is_of_one and self.how.is_one_idle and "source" in self.fault.says
                          and pages[self.victim.name] == "200 ready")
        return self.has_left

    async def check_stored(self, before):
        """before: what had been sent others_s ago, by fleet."""
        for fleet, sent in before.items():
            missing, since = sent - set(await self.store.ids(fleet)), len(self.feed.sent[fleet]) - len(sent)
            if missing or since < self.fault.others_s / EVERY_S / 2:
                raise self.wrong("during", f"of {len(sent)} events {len(missing)} are not stored; since then {since} have come to "
                                 f"{fleet}")
            if self.how.has_hook and sent - self.hook.got:
                raise self.wrong("during", f"{len(sent - self.hook.got)} events were not delivered")

    def check_log(self):
        most = 2 + self.how.has_hook + self.fault.lasts_s / 30  # webhooks have a connection of their own
        if not self.has_logged(self.fault.log):
            raise self.wrong("during", f"not logged: {self.fault.log}")
        for listener in self.others() if self.fault.is_of_one else ():
            if listener is not self.victim and (found := BLAME.search(listener.news())):
                raise self.wrong("during", f"{listener.name}, which is well, logs {found[0]}")
        for listener in self.others():
            for event, count in collections.Counter(LOG_LINE.findall(listener.news())).items():
                if count > most:
                    raise self.wrong("during", f"{listener.name} logs {count} times: {' '.join(event)}")

    def has_logged(self, pattern):
        return self.of(re.search(pattern, one.news()) for one in self.judged())

    async def check_end(self):
        if not self.has_left and not await comes_true(lambda: self.has_logged(self.fault.log_end), 45 * SLOW, 0.5):
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

    async def settle(self):
        """Waits until only the readers are connected, and all listeners have checked in since."""
        if not await comes_true(lambda: not self.how.is_one_idle or len(self.feed.lines) < len(self.listeners), 20 * SLOW, 0.5):
            raise self.wrong("before", "too many listeners read")
        await asyncio.sleep(6)

    async def busiest(self):
        """Returns the connected listener that has stored most: the leader, or the one that reads."""
        names = {line.listener for line in self.feed.lines}
        connected = [one for one in self.listeners if one.name in names]
        stored = [await one.metric("persisted_total") for one in connected]
        return connected[stored.index(max(stored))]

    async def play(self):
        self.began = time.monotonic()
        await self.start()
        await self.become_well("before", BEGIN_S, ".")
        for listener in self.listeners:
            if BLAME.search(listener.log()):
                raise self.wrong("before", f"{listener.name} warns: {listener.log()[-600:]}")
        if self.fault.is_of_one:
            await self.settle()
        self.victim = await self.busiest()
        await self.do(self.fault.begin)
        await self.suffer()
        self.check_log()
        await self.do(self.fault.end)
        await self.become_well("after", self.fault.back_s * SLOW, f"{self.fault.says}|{self.fault.also}|is connecting$")
        await self.check_end()
        await self.check_rows()


async def play(name, how, fault, directory, libraries):
    """Returns what is wrong, or None."""
    os.makedirs(directory)
    os.chmod(directory, 0o755)
    cell = Cell(name, how, fault, directory, libraries)
    try:
        await cell.play()
    except (Wrong, AssertionError) as error:
        return str(error)
    finally:
        await cell.stop()
    return None
