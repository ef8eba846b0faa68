"""Waits for other processes: owns the deadline of every wait, and the error of a rig that cannot continue."""
import asyncio
import inspect
import os
import time

SLOW = float(os.environ.get("WSONCE_TEST_SLOW", "1"))       # stretches deadlines


class RigError(Exception):
    """Something that the rig itself needs is missing or has failed, so there is no verdict."""


async def comes_true(predicate, seconds, every=0.05):
    """Returns whether the predicate, a function or coroutine function, became true in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = predicate()
        if await found if inspect.isawaitable(found) else found:
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(every)


async def wait_until(predicate, seconds, what):
    if not await comes_true(predicate, seconds):
        raise RigError(f"{what}: not within {seconds} s")
