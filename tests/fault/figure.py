"""A figure: owns what was measured and the promised limits, and prints both."""


class Figure:
    def __init__(self, name, settings):
        self.name = name
        self.settings = settings
        self.lines = []                 # (words, value, unit)
        self.limits = []                # (words, value, limit, unit, whether it is met)
        self.seconds = 0

    def note(self, words, value, unit=""):
        self.lines.append((words, value, unit))

    def at_most(self, words, value, limit, unit=""):
        self.limits.append((words, value, f"at most {show(limit)}", unit, value is not None and value <= limit))

    def at_least(self, words, value, limit, unit=""):
        self.limits.append((words, value, f"at least {show(limit)}", unit, value is not None and value >= limit))

    def account(self, counts):
        """Checks, for every figure, that exactly what was sent is stored."""
        for name, count in counts.items():
            if name in ("sent", "rows"):
                self.note(f"events {name}" if name == "sent" else name, count)
            else:
                self.at_most(name.replace("_", " "), count, 0)

    @property
    def is_met(self):
        return bool(self.limits) and all(limit[-1] for limit in self.limits)

    def show(self):
        print(f"\n{self.name}: " + ", ".join(f"{key} {value}" for key, value in self.settings.items()))
        for words, value, unit in self.lines:
            print(f"    {words:62} {show(value):>12} {unit}".rstrip())
        for words, value, limit, unit, is_met in self.limits:
            print(f"    {words:62} {show(value):>12} {unit:4} {limit:18} {'met' if is_met else 'MISSED'}")

    def summary(self):
        return {"name": self.name, "settings": self.settings, "seconds": round(self.seconds, 1), "met": self.is_met,
                "measured": {words: value for words, value, _ in self.lines},
                "limits": [{"what": words, "value": value, "limit": limit, "unit": unit, "met": is_met}
                           for words, value, limit, unit, is_met in self.limits]}


def show(value):
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
