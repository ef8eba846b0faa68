"""Producers at one listener: owns the runs of wsonce-producer, with acks and without."""
from measure.race import costs, rates
from rig.load import Producer
from rig.proc import memory_mib
from rig.waiting import RigError

WINDOW = 16_000                         # unacked messages, over all connections


async def send(rig, port, prefix, count, connections, wants_acks, settled):
    child = rig.child("producer", Producer, prefix)
    await child.start(rig.programs, [port], "--count", str(count), "--connections", str(connections), "--window",
                      str(max(1, WINDOW // connections)), "--connect-first", *([] if wants_acks else ["--no-acks"]))
    ended = await settled
    if await child.process.wait():
        raise RigError(f"wsonce-producer with {connections} connections failed: {child.log().strip()}")
    told = child.told()
    if told["events"] != count or (wants_acks and told["persisted"] != count):
        raise RigError(f"of {count} events wsonce-producer sent {told['events']}, and {told['persisted']} were acked as persisted")
    return told["start_unix_us"] / 1e6, ended


async def measure(rig, fleet, warm_up, events, connections, wants_acks):
    """Measures from the first message to the last settled delivery, as with a feed. All connections are up before that, so
    that handshakes are not measured."""
    await rig.empty()
    port = await fleet.open_ingest()
    await send(rig, port, "warm", warm_up, connections, wants_acks, fleet.settle(warm_up))
    before = rig.cpu_s(fleet.pids())
    began, ended = await send(rig, port, "bench", events, connections, wants_acks, fleet.settle(warm_up + events))
    used = rig.cpu_s(fleet.pids()) - before
    resident = max(memory_mib(pid, "VmHWM") for pid in fleet.pids())
    await fleet.end()
    await rig.verify(warm_up + events)
    seconds = ended - began
    return {"seconds": seconds} | rates(events, events, seconds) | costs(events, events, used) | {"resident_peak_mib": resident}
