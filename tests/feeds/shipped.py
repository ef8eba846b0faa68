"""Adapts a shipped profile to the scripted server."""
import copy
import json
import re

from rig import run
from scripts import TOKEN

SECRET = re.compile(r"\$\{env:(\w+)\}")


def local(text, port):
    """Returns a URL of the profile changed to the scripted server. Variables are left alone."""
    text = re.sub(r"^wss://", "ws://", text)
    return re.sub(r"^(ws|http)s?://[^/$?]+", rf"\1://127.0.0.1:{port}", text)


def local_profile(feed, directory):
    """Returns the profile, and writes the files that it names into the directory."""
    for name, content in feed.files.items():
        with open(f"{directory}/{name}", "wb") as file:
            file.write(content)
    profile = copy.deepcopy(feed.profile)
    if not isinstance(profile, dict):
        with open(f"{run.TREE}/profiles/{profile or feed.name}.json", encoding="utf-8") as file:
            profile = json.load(file)
    profile.update(feed.overrides)
    profile.pop("mirrors", None)
    profile["headers"] = {**profile.get("headers", {}), "X-Listener": "${env:LISTENER}"}
    if "fill" in profile:
        profile["fill"]["http"]["url"] = local(profile["fill"]["http"]["url"], feed.port).replace("https:", "http:")
        profile["fill"]["every_s"] = 0.1
    for key in ("url", "url_resume"):
        if key in profile:
            profile[key] = local(profile[key], feed.port)
    for key, value in profile.get("vars", {}).items():
        if key in ("host", "relay", "rest", "web"):
            profile["vars"][key] = f"127.0.0.1:{feed.port}"
        elif isinstance(value, str):
            profile["vars"][key] = local(value, feed.port)
    return profile


def secrets(profile, listener):
    """Returns the environment of a listener with that profile."""
    names = set(SECRET.findall(json.dumps(profile)))
    return {**dict.fromkeys(names, TOKEN), "LISTENER": listener}
