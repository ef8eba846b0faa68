"""Faults of several Redis servers: how a master is lost and comes back. Before the next fault each server has its role
again."""
import asyncio
import signal

SLOTS = 1200                    # of about 5,400 that a master has


def masters_act(strike, mend=None):
    """Returns an act: strike(redis, master), and mend(redis, master) when the fault's time is over. Masters take turns."""
    async def act(rig, fault):
        redis = rig.redis
        masters = await redis.become_whole()
        victim = masters[fault.number % len(masters)]
        await strike(redis, victim)
        await asyncio.sleep(fault.duration)
        if mend:
            await mend(redis, victim)
        new = [server for server in await redis.become_whole() if server not in masters]
        rig.played.count("failovers", len(new))
        fault.outcome = "another master" if new else "the same masters"
    return act


async def fail_over_twice(redis, master):
    known = await redis.masters()
    await redis.fail_over([master])
    await redis.fail_over([server for server in await redis.become_whole() if server not in known] or [master])


async def kill_replica(redis, master):
    """In a cluster, kills the only replica of a master."""
    for replica in await redis.replicas():
        if f"master_port:{master.port}".encode() in await replica.try_ask("INFO", "replication"):
            await replica.kill()
            await asyncio.sleep(0.5)
            await replica.start()
            return


async def move_slots(redis, master):
    """There and back: a master without slots would become a replica."""
    masters = await redis.masters()
    other = masters[masters.index(master) - 1]
    await redis.reshard(master, other, SLOTS)
    await redis.reshard(other, master, SLOTS)


async def freeze(redis, master):
    master.signal(signal.SIGSTOP)


async def thaw(redis, master):
    master.signal(signal.SIGCONT)


async def freeze_all(redis, master):
    redis.signal(signal.SIGSTOP)


async def thaw_all(redis, master):
    redis.signal(signal.SIGCONT)


master_kill = masters_act(lambda redis, master: master.kill(), lambda redis, master: master.start())
master_stop = masters_act(freeze, thaw)
all_stop = masters_act(freeze_all, thaw_all)
failover = masters_act(lambda redis, master: redis.fail_over([master]))
failover_twice = masters_act(fail_over_twice)
cut_off = masters_act(lambda redis, master: redis.cut_off(master), lambda redis, master: redis.join_again(master))
replica_kill = masters_act(kill_replica)
hang_up = masters_act(lambda redis, master: redis.ask("CLIENT", "KILL", "TYPE", "normal"))
reshard = masters_act(move_slots)
