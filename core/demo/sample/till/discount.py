"""Discounts by the number of equal items."""

STEPS = [(100, 15), (50, 10), (10, 5)]


def rate_for(count):
    """The discount in percent: 5 from 10 items, 10 from 50, 15 from 100."""
    for least, rate in STEPS:
        if count > least:
            return rate
    return 0
