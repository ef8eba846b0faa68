"""Producers at one listener: owns the runs of wsonce-producer, with acks and without."""
import json

from servers import RigError

from measure.process import memory_mib
from measure.race import costs, rates

WINDOW = 16_000                         # messages without ack, over all connections


async def send(rig, url, name, count, connections, wants_acks, settled):
    output = f"{rig.directory}/producer.json"
    window = max(1, WINDOW // connections)
    with open(output, "wb") as out:
        child, log = await rig.spawn(
            [f"{rig.programs}/wsonce-producer", "--to", url, "--count", str(count), "--connections", str(connections),
             "--window", str(window), "--id-prefix", name, "--json"] + ([] if wants_acks else ["--no-acks"]), "producer",
            stdout=out)
    ended = await settled
    if await child.wait():
        with open(log, errors="replace") as file:
            raise RigError(f"wsonce-producer with {connections} connections failed: {file.read().strip()}")
    with open(output) as file:
        told = json.load(file)
    if told["events"] != count or (wants_acks and told["persisted"] != count):
        raise RigError(f"of {count} events wsonce-producer sent {told['events']}, and {told['persisted']} were acked as persisted")
    return told["start_unix_us"] / 1e6, ended


async def measure(rig, fleet, warm_up, events, connections, wants_acks):
    """From the first message to the last delivery settled, as with a feed, whose place the producer has."""
    await rig.empty()
    url = await fleet.open_ingest()

    await send(rig, url, "warm", warm_up, connections, wants_acks, fleet.settle(warm_up))
    before = rig.cpu_s(fleet.pids())
    began, ended = await send(rig, url, "bench", events, connections, wants_acks, fleet.settle(warm_up + events))
    used = rig.cpu_s(fleet.pids()) - before
    resident = max(memory_mib(pid, "VmHWM") for pid in fleet.pids())
    await fleet.end()
    await rig.verify(warm_up + events)
    seconds = ended - began
    return {"seconds": seconds} | rates(events, events, seconds) | costs(events, events, used) | {"resident_peak_mib": resident}
