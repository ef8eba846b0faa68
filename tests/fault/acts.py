"""The shape of most faults: how one begins, lasts and ends."""
import asyncio
import inspect


def lasting(begin, end=None):
    """Returns an act that calls begin, and end when its time is over: functions or coroutine functions of (rig, fault)."""
    async def act(rig, fault):
        for step, pause_s in ((begin, fault.duration), (end, 0)):
            done = step and step(rig, fault)
            if inspect.isawaitable(done):
                await done
            await asyncio.sleep(pause_s)
    return act


def on_links(act, *names):
    """Returns a step that calls act(link) for the links of the fault's listener, or of all listeners. If names are missing,
    the fault's detail has them. With several Redis servers listeners find the servers' addresses, so there is no link."""
    def step(rig, fault):
        for listener in [rig.listener(fault.target)] if fault.target else rig.listeners:
            for name in names or fault.detail.split("+"):
                if name in listener.links:
                    act(listener.links[name])
    return step
