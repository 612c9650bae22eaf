"""Amounts of money as whole cents."""


def parse(text):
    """'2.50' -> 250, '3' -> 300. Raises ValueError for anything else."""
    whole, dot, cents = text.strip().partition(".")
    if dot and len(cents) != 2:
        raise ValueError(f"not an amount: {text!r}")
    return int(whole) * 100 + int(cents or 0)


def show(cents):
    """250 -> '2.50', -5 -> '-0.05'."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"


def percent(cents, rate):
    """`rate` percent of an amount, rounded half up to whole cents."""
    return round(cents * rate / 100)
