"""Many values: owns what is made of them."""


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(ordered, percent):
    """The smallest of the sorted values that is not less than so many percent of them."""
    rank = -(-len(ordered) * round(percent * 1000) // 100_000)
    return ordered[max(1, rank) - 1]


def summary(values):
    return {"median": median(values), "min": min(values), "max": max(values), "samples": list(values)}
