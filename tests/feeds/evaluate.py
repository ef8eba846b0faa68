#!/usr/bin/env python3
"""Evaluates a source profile on a recording in the plainest way: it builds whole trees and keeps everything. The program's
own evaluator (listener/feed) does the same on slices; tests/feeds/run compares the two.

usage: tests/feeds/evaluate.py PROFILE FRAMES [--connections LINE,LINE] [--now SECONDS]

FRAMES has a message of the server on each line. --connections names the first line of each connection (default: 1),
--now the wall clock that clamps cursors. What is seen counts as durable."""
import argparse
import hashlib
import json
import re
import textwrap
import urllib.parse
from decimal import Decimal

NOW = 1790000000
WIDTH = 120
ABSENT = type("Absent", (), {"__repr__": lambda self: "absent"})()
PLACEHOLDER = re.compile(r"\$\{((?:hmac|rsa)_\w+:\$\{[^}]*\}:(?:\$\{[^}]*\}|\{[^{}]*\}|[^{}])*|[^}]*)\}")
SHOWN = ("env:", "file:", "hmac_", "rsa_")      # secrets and signatures are shown as their names
TIME = re.compile(r"now_(m?s)([+-][0-9]+)?")
HEX = re.compile(r"(0x)?[0-9a-fA-F]+")
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # in a text of Postgres
DIGITS = re.compile(r"[0-9]{1,38}")
INDEX = re.compile(r"0|[1-9][0-9]*")
TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
COUNTS = ("frames", "event_frames", "ignored_frames", "rejected_frames", "events_seen", "unique_events",
          "duplicate_events", "filtered_events")


def decode(text):
    """Raises ValueError unless it is JSON by RFC 8259 whose strings are all valid Unicode."""
    def refuse(word):
        raise ValueError(word)
    document = json.loads(text, parse_constant=refuse, parse_float=Real)
    canonical(document).encode()
    return document


class Writer(json.JSONEncoder):
    """Writes a real as it came if its double is another number."""

    def iterencode(self, value, _one_shot=False):
        words = json.encoder.encode_basestring_ascii if self.ensure_ascii else json.encoder.encode_basestring
        return json.encoder._make_iterencode({}, self.default, words, self.indent, write_real, self.key_separator,
                                             self.item_separator, self.sort_keys, self.skipkeys, _one_shot)(value, 0)


def write_real(value):
    printed = float.__repr__(value)
    text = getattr(value, "text", printed)
    return printed if Decimal(printed) == Decimal(text) else text


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, cls=Writer)


def digest(value):
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def is_exact(value):
    """Returns whether every JSON library prints it in the same way: no reals, and only integers of 64 bits with sign."""
    if isinstance(value, (dict, list)):
        return all(map(is_exact, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) and not (isinstance(value, int) and not -2 ** 63 <= value < 2 ** 63)


def tokens(pointer):
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def step(node, token):
    if isinstance(node, dict):
        return node.get(token, ABSENT)
    if isinstance(node, list) and INDEX.fullmatch(token) and int(token) < len(node):
        return node[int(token)]
    return ABSENT


def at(document, pointer):
    for token in tokens(pointer):
        document = step(document, token)
        if document is ABSENT:
            break
    return document


def spread(document, pointer):
    """Returns (element, its index in the innermost array) for each match of the pointer with stars, in order."""
    found = [(document, 0)]
    for token in tokens(pointer):
        if token == "*":
            found = [pair[::-1] for node, _ in found if isinstance(node, list) for pair in enumerate(node)]
        else:
            found = [(step(node, token), index) for node, index in found]
            found = [pair for pair in found if pair[0] is not ABSENT]
    return found


def has_list(document, pointer):
    """True if there is an array or null at the first star, or anything at a pointer without one."""
    place, star, _ = pointer.partition("/*")
    top = at(document, place)
    return top is None or isinstance(top, list) if star else top is not ABSENT


def word(value):
    """Returns the value as a part of an id, a type or a time; None if it cannot be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) and value else None


class Real(float):
    """A number with a fraction, which a time keeps as it is written."""

    def __new__(cls, text):
        self = float.__new__(cls, text)
        self.text = text
        return self


def is_there(value):
    return value is not ABSENT and value is not None


def is_like(value, wanted):
    kinds = [float if isinstance(each, Real) else type(each) for each in (value, wanted)]
    return kinds[0] is kinds[1] and value == wanted


CONDITIONS = {
    "exists": lambda value, wanted: is_there(value) == wanted,
    "not": lambda value, wanted: value not in (wanted if isinstance(wanted, list) else [wanted]),
    "prefix": lambda value, wanted: isinstance(value, str) and value.startswith(wanted),
    "type": lambda value, wanted: TYPES.get(type(value)) == wanted,
    "gte": lambda value, wanted: isinstance(value, (int, float)) and value >= wanted,
    "lt": lambda value, wanted: isinstance(value, (int, float)) and value < wanted,
}


def holds(value, condition):
    if isinstance(condition, dict):
        return all(CONDITIONS[name](value, wanted) for name, wanted in condition.items())
    return any(is_like(value, wanted) for wanted in (condition if isinstance(condition, list) else [condition]))


def fits(document, conditions):
    return all(holds(at(document, pointer), condition) for pointer, condition in conditions.items())


class Variables(dict):
    """Variables by name. own: names of those that have the profile's value."""

    def __init__(self, first, now):
        super().__init__(first)
        self.own = set(first)
        self.now = now

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        self.own.discard(name)

    def reset(self, name, first):
        self.pop(name, None)
        if name in first:
            self[name] = first[name]
            self.own.add(name)


class EachOf(Variables):
    """Variables with ${each}, an element of a list."""

    def __init__(self, variables, each):
        super().__init__({**variables, "each": each}, variables.now)
        self.own = variables.own


class View:
    """What a part or a template can refer to: the frame, one of its elements, and the source's variables."""

    def __init__(self, variables, frame=None, element=None, index=0):
        self.variables = variables
        self.frame = frame
        self.element = element
        self.index = index

    def part(self, text):
        kind, rest = text[:1], text[1:]
        if kind == "=":
            return rest
        if kind == "$":
            return self.variables.get(rest, ABSENT)
        if kind == "^":
            return at(self.frame, rest)
        if kind == "#":
            value = at(self.element, rest)
            return value if value is ABSENT else digest(value)
        return self.index if text == "@" else at(self.element, text)

    def word(self, text):
        return None if text is None else word(self.part(text))

    def time(self, text):
        value = ABSENT if text is None else self.part(text)
        return value.text if isinstance(value, Real) else word(value)

    def event_id(self, rule):
        join = rule.get("id_join", "|")
        for alternative in rule["id"]:
            words = [self.word(text) for text in alternative]
            if None not in words:
                if join == "|":
                    words = [each.replace("\\", "\\\\").replace("|", "\\|") for each in words]
                return join.join(words)
        return None

    def named(self, name):
        if not name or name.startswith("/"):
            return at(self.frame, name)
        if name.startswith("text:"):
            return self.inline(name[5:])
        if name.startswith(SHOWN):
            return "${" + name + "}"
        if time := TIME.fullmatch(name):
            return self.variables.now * (1000 if time[1] == "ms" else 1) + int(time[2] or 0)
        return self.variables.get(name, ABSENT)

    def inline(self, name):
        value = self.named(name)
        if isinstance(value, str):
            return value
        return json.dumps(value, cls=Writer) if is_there(value) else ""

    def encode(self, match):
        """In a URL, values from the feed are percent-encoded, except at its beginning."""
        name = match.group(1)
        is_own = name.startswith(SHOWN) or name.removeprefix("text:") in self.variables.own
        text = self.inline(name)
        return text if is_own or not match.start() else urllib.parse.quote(text, safe=":")

    def fill_url(self, template):
        is_alone = not isinstance(template, str) or PLACEHOLDER.fullmatch(template)
        return self.fill(template) if is_alone else PLACEHOLDER.sub(self.encode, template)

    def fill(self, template):
        """Renders a template. Returns ABSENT if it is a choice whose branch is null."""
        if isinstance(template, dict) and set(template) == {"if", "then", "else"}:
            chosen = template["then" if is_there(self.variables.get(template["if"].lstrip("$"), ABSENT)) else "else"]
            return ABSENT if chosen is None else self.fill(chosen)
        if isinstance(template, dict):
            return {key: self.fill(value) for key, value in template.items()}
        if isinstance(template, list):
            return self.fill_all(template)
        if not isinstance(template, str):
            return template
        alone = PLACEHOLDER.fullmatch(template)
        if alone:
            value = self.named(alone.group(1))
            return None if value is ABSENT else value
        return PLACEHOLDER.sub(lambda match: self.inline(match.group(1)), template)

    def give(self, template):
        """Renders an item of an array: a list has one value for each element of its variable."""
        if not isinstance(template, dict) or set(template) != {"each", "give"}:
            return [self.fill(template)]
        array = self.variables.get(template["each"].lstrip("$"), ABSENT)
        views = [View(EachOf(self.variables, each), self.frame) for each in (array if isinstance(array, list) else [])]
        return [view.fill(template["give"]) for view in views]

    def fill_all(self, templates):
        return [text for template in templates for text in self.give(template) if text is not ABSENT]


class Cursor:
    """The resume point: its settings, how far it is, and what waits for hold_until."""

    def __init__(self, settings):
        self.settings = settings or {}
        self.mark = None
        self.is_held = False
        self.waiting = None

    def shown(self):
        if not isinstance(self.mark, int) or isinstance(self.mark, bool):
            return self.mark
        number = max(self.mark - self.settings.get("rewind", 0), 0)
        return hex(number) if self.settings.get("format") == "hex" else number

    def connect(self):
        self.is_held = bool(self.settings.get("hold_until"))
        self.waiting = None

    def see(self, document):
        if self.is_held and fits(document, self.settings["hold_until"]):
            self.is_held = False
            if self.waiting is not None:
                self.mark = self.later(self.mark, self.waiting)

    def read(self, value):
        """Returns the value as a cursor; None if it cannot be one."""
        if self.settings.get("kind") == "max" and isinstance(value, str) and UNSTORABLE.search(value):
            return None
        if self.settings.get("format") != "hex":
            return value if is_there(value) else None
        return int(value, 16) if isinstance(value, str) and HEX.fullmatch(value) else None

    def later(self, old, new):
        if old is None or self.settings["kind"] == "last":
            return new
        if not {type(old), type(new)} <= {int, Real, float, str}:
            raise TypeError("a cursor that is neither a number nor a text")
        return max(old, new)

    def move(self, value, now):
        value = self.read(value)
        if value is None:
            return
        if self.settings.get("clamp_now") and isinstance(value, int):
            value = min(value, now)
        if self.is_held:
            self.waiting = self.later(self.waiting, value)
        else:
            self.mark = self.later(self.mark, value)


class Source:
    def __init__(self, profile, now):
        self.profile = profile
        self.now = now
        self.defaults = profile.get("vars", {})
        self.variables = Variables(self.defaults, now)
        self.cursor = Cursor(profile.get("cursor"))
        self.redirect = None
        self.counts = dict.fromkeys(COUNTS, 0)
        self.events = {}
        self.numbers = {}               # the highest of each gap key
        self.connections, self.sends, self.acks, self.actions, self.gaps = [], [], [], [], []

    def show_cursor(self):
        shown = self.cursor.shown()
        if shown is not None:
            self.variables["cursor"] = shown
        return shown

    def choose_url(self):
        resume = self.profile.get("url_resume")
        if self.redirect:
            chosen, self.redirect = self.redirect, None
            return chosen, "redirect"
        names = [name.removeprefix("text:") for name in PLACEHOLDER.findall(resume or "")]
        names = [name for name in names if not name.startswith(("/", "now_", *SHOWN))]
        if resume and all(is_there(self.variables.get(name, ABSENT)) for name in names):
            return resume, "resume"
        return self.profile["url"], "http-bootstrap" if self.profile.get("url_http") else "fresh"

    def connect(self, line):
        if self.show_cursor() is None:
            self.variables.pop("cursor", None)
        url, how = self.choose_url()
        view = View(self.variables)
        keeps = how == "redirect" and self.profile.get("redirect_keeps_subscriptions")
        self.cursor.connect()
        self.connections.append({"first_line": line, "how": how, "url": url if how == "redirect" else view.fill_url(url),
                                 "on_open": [] if keeps else view.fill_all(self.profile.get("on_open", []))})

    def message(self, line, text):
        self.counts["frames"] += 1
        said = text.decode(errors="replace")
        rule = self.find_text_rule(said)
        if rule:
            verdicts = [self.follow(line, rule, said)]
        else:
            try:
                document = decode(text)
            except ValueError as error:
                is_ignored = not isinstance(error, UnicodeEncodeError) and (
                    not said.strip(" \t\r\n") or self.profile.get("not_json") == "ignore")
                self.counts["ignored_frames" if is_ignored else "rejected_frames"] += 1
                return
            is_split = self.profile.get("split") == "array" and isinstance(document, list)
            verdicts = [self.frame(line, each) for each in (document if is_split else [document])]
        events, rejected = map(sum, zip(*verdicts)) if verdicts else (0, 0)
        self.counts["event_frames" if events else "rejected_frames" if rejected else "ignored_frames"] += 1

    def open_strings(self, document):
        for pointer in self.profile.get("json_strings", []):
            text = at(document, pointer)
            if isinstance(text, str) and text.startswith(("{", "[")):
                parent, _, key = pointer.rpartition("/")
                holder = at(document, parent)
                try:
                    holder[tokens("/" + key)[0] if isinstance(holder, dict) else int(key)] = json.loads(text)
                except ValueError:
                    pass

    def find_text_rule(self, text):
        """Returns the rule of a message that is not JSON; None if none matches."""
        for rule in self.profile["rules"]:
            wanted = rule.get("text")
            if text == wanted or isinstance(wanted, dict) and text.startswith(wanted["prefix"]):
                return rule
        return None

    def find_rule(self, document):
        for rule in self.profile["rules"]:
            if "text" not in rule and fits(document, rule.get("when", {})):
                return rule
        return {"name": "default", "action": self.profile.get("default", "ignore")}

    def frame(self, line, document):
        """Returns how many events the frame has, and how many were rejected."""
        self.open_strings(document)
        self.cursor.see(document)
        return self.follow(line, self.find_rule(document), document)

    def follow(self, line, rule, document):
        view = View(self.variables, document, document)
        self.remember(rule, view)
        self.sends += [{"after_line": line, "frame": frame} for frame in view.fill_all(rule.get("send", []))]
        action = rule.get("action", "ignore")
        if action == "event":
            return self.explode(line, rule, view)
        if action in ("reconnect", "fatal"):
            self.act(line, rule, view)
        if action == "reject":
            return 0, 1
        if rule.get("cursor"):
            self.cursor.move(view.part(rule["cursor"]), self.now)
        return 0, 0

    def remember(self, rule, view):
        for name, text in rule.get("capture", {}).items():
            value = view.part(text)
            if is_there(value):
                self.variables[name] = value
        for name in rule.get("clear", []):
            self.variables.reset(name, self.defaults)
            if name == "cursor":
                self.cursor.mark = None
        self.show_cursor()

    def act(self, line, rule, view):
        done = {"after_line": line, "action": rule["action"], "rule": rule.get("name")}
        if rule.get("url"):
            done["url"] = self.redirect = view.fill_url(rule["url"])
        self.actions.append(done)

    def explode(self, line, rule, view):
        document = view.frame
        if rule.get("explode") and not has_list(document, rule["explode"]):
            return 0, int(self.profile.get("default") == "reject")
        elements = spread(document, rule["explode"]) if rule.get("explode") else [(document, 0)]
        events = rejected = 0
        for element, index in elements:
            if rule.get("where") and not fits(element, rule["where"]):
                self.counts["filtered_events"] += 1
                continue
            seen = View(self.variables, document, element, index)
            event_id = seen.event_id(rule)
            if event_id is None:
                rejected += 1
                continue
            events += 1
            self.event(line, rule, seen, event_id)
        if rule.get("ack") and not rejected:
            self.acks.append({"line": line, "frame": view.fill(rule["ack"])})
        return events, rejected

    def event(self, line, rule, view, event_id):
        self.counts["events_seen"] += 1
        if event_id in self.events:
            self.counts["duplicate_events"] += 1
        else:
            payload = view.part(rule.get("payload", ""))
            is_hashed = payload is not ABSENT and is_exact(payload)
            self.events[event_id] = {"id": event_id, "line": line, "type": view.word(rule.get("type") or None),
                                     "time": view.time(rule.get("time") or None),
                                     "payload_sha256": digest(payload) if is_hashed else None}
            self.watch_gap(line, view)
        if rule.get("cursor"):
            self.cursor.move(view.part(rule["cursor"]), self.now)

    def watch_gap(self, line, view):
        gap = self.profile.get("gap")
        if not gap:
            return
        key, number = view.word(gap["key"]), view.part(gap["seq"])
        if isinstance(number, str) and DIGITS.fullmatch(number):
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool):
            return
        highest = self.numbers.get(key)
        if highest is not None and gap.get("contiguous") and number > highest + 1:
            self.gaps.append({"line": line, "key": key, "first": highest + 1, "last": number - 1})
        self.numbers[key] = number if highest is None else max(highest, number)

    def result(self):
        self.counts["unique_events"] = len(self.events)
        return {**self.counts, "event_ids": list(self.events), "eval_now": self.now, "cursor_next": self.cursor.shown(),
                "ack_mode": self.profile.get("ack_mode"), "connections": self.connections, "sends": self.sends,
                "acks": self.acks, "actions": self.actions, "gaps": self.gaps, "events": list(self.events.values())}


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def evaluate(profile, recording, starts, now):
    """profile: its path. recording: the path of the messages."""
    source = Source(read_json(profile), now)
    with open(recording, "rb") as file:
        lines = file.read().rstrip(b"\n").split(b"\n")
    for number, line in enumerate(lines, 1):
        if number in starts:
            source.connect(number)
        source.message(number, line)
    return source.result()


def filled(texts):
    """Returns the texts joined by commas, in lines that are as long as possible; no text is broken."""
    return textwrap.fill(", ".join(text.replace(" ", "\0") for text in texts), WIDTH - 1, initial_indent=" ", subsequent_indent=" ",
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def show(result):
    """Returns JSON with one element of an array per line if it is an object, and short values in one line."""
    blocks, short = [], []
    for key, value in result.items():
        text = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        if not isinstance(value, list) or len(text) < WIDTH:
            short.append(text)
            continue
        if short:
            blocks.append(filled(short))
        short = []
        words = [json.dumps(one, ensure_ascii=False) for one in value]
        inner = ",\n".join(f"  {word}" for word in words) if isinstance(value[0], dict) else filled(words)
        blocks.append(f" {json.dumps(key)}: [\n{inner}\n ]")
    if short:
        blocks.append(filled(short))
    return "{\n" + ",\n".join(blocks) + "\n}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("profile")
    parser.add_argument("frames")
    parser.add_argument("--connections", default="1")
    parser.add_argument("--now", type=int, default=NOW)
    given = parser.parse_args()
    starts = [int(line) for line in given.connections.split(",")]
    print(show(evaluate(given.profile, given.frames, starts, given.now)))


if __name__ == "__main__":
    main()
