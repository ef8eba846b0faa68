"""Statistics over many values."""


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(values, percent):
    """Returns the smallest value that this many percent of the values do not exceed; None if there are no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    rank = -(-len(ordered) * round(percent * 1000) // 100_000)
    return ordered[max(1, rank) - 1]


def summary(values):
    return {"median": median(values), "min": min(values), "max": max(values), "samples": list(values)}
