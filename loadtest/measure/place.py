"""Where and with what a run took place: the machine, and the versions of everything that takes part."""
import os
import platform
import subprocess

from rig import machine


def version(*command):
    try:
        return machine.version(*command)
    except FileNotFoundError:
        return "none"


def wsonce_version(tree):
    told = subprocess.run([f"{tree}/build/wsonce", "--version"], capture_output=True, text=True, check=True)
    return told.stdout.split()[-1]


def describe(tree):
    return machine.describe(tree) | {
        "kernel": os.uname().release, "wsonce": wsonce_version(tree),
        "libwebsockets": version("pkg-config", "--modversion", "libwebsockets"), "node": version("node", "--version"),
        "python": platform.python_version()}
