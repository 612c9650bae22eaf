"""The printed receipt."""

from till.money import show

WIDTH = 32


def render(basket):
    """The receipt as text, one line per article, the total last."""
    rows = [_row(f"{line.count} x {line.name}", line.net + line.tax) for line in basket.lines]
    return "\n".join([*rows, "-" * WIDTH, _row("total", basket.total)])


def _row(label, cents):
    amount = show(cents)
    return f"{label[: WIDTH - len(amount) - 1]:<{WIDTH - len(amount)}}{amount}"
