"""How much is measured: owns the number of rounds, and how the numbers of events shrink in a quick run. The full numbers
are in scenario.py; on two cores of 2023, each measurement takes about three seconds with them."""

ROUNDS, ROUNDS_QUICK = 3, 1
QUICK_SHARE = 5


class Plan:
    def __init__(self, is_quick, rounds=None, scale=1.0):
        self.is_quick = is_quick
        self.rounds = rounds or (ROUNDS_QUICK if is_quick else ROUNDS)
        self.scale = scale / QUICK_SHARE if is_quick else scale

    def events(self, full, least=100):
        return max(least, round(full * self.scale))

    def seconds(self, full):
        return max(1.0, full * self.scale)
