"""Waiting for what other processes do: owns the deadline of every wait, and the error of a rig that cannot go on."""
import asyncio
import inspect
import os
import time

SLOW = float(os.environ.get("WSONCE_TEST_SLOW", "1"))       # stretches deadlines


class RigError(Exception):
    """Something that the rig itself needs is missing or failed: no verdict."""


async def comes_true(predicate, seconds, every=0.05):
    """Whether it came true in time. predicate: a function, or a coroutine function."""
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
