"""The shape of most faults: owns how one begins, lasts and ends."""
import asyncio
import inspect


def lasting(begin, end=None):
    """A fault's act: begin, and end when its time is over. Both are functions of (rig, fault), or coroutine functions."""
    async def act(rig, fault):
        for step, pause_s in ((begin, fault.duration), (end, 0)):
            done = step and step(rig, fault)
            if inspect.isawaitable(done):
                await done
            await asyncio.sleep(pause_s)
    return act


def on_links(act, *names):
    """A step that does act(link) to the links of the fault's listener, or of all listeners. The fault's detail has the
    names if there are none. Several servers of Redis tell listeners where they are, so that no link lies between."""
    def step(rig, fault):
        for listener in [rig.listener(fault.target)] if fault.target else rig.listeners:
            for name in names or fault.detail.split("+"):
                if name in listener.links:
                    act(listener.links[name])
    return step
