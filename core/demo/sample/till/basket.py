"""What a customer is about to buy."""

from till.discount import rate_for
from till.money import percent

TAX_RATE = 7


class Line:
    """One article: its name, its price in cents and how many of it."""

    def __init__(self, name, price, count):
        self.name = name
        self.price = price
        self.count = count

    @property
    def discount(self):
        return percent(self.price * self.count, rate_for(self.count))

    @property
    def net(self):
        return self.price * self.count - self.discount

    @property
    def tax(self):
        return percent(self.net, TAX_RATE)


class Basket:
    """Lines in the order they were added; the same article at the same price is one line."""

    def __init__(self):
        self.lines = []

    def add(self, name, price, count=1):
        if count < 1:
            raise ValueError(f"a basket can't hold {count} of {name}")
        self.lines.append(Line(name, price, count))

    @property
    def total(self):
        return sum(line.net + line.tax for line in self.lines)
