"""Many values: owns what is made of them."""


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(values, percent):
    """The smallest of the values that is not less than so many percent of them; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    rank = -(-len(ordered) * round(percent * 1000) // 100_000)
    return ordered[max(1, rank) - 1]


def summary(values):
    return {"median": median(values), "min": min(values), "max": max(values), "samples": list(values)}
