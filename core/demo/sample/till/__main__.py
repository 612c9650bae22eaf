"""`python3 -m till 3x2.50 1x9.99` prints a receipt."""

import sys

from till.basket import Basket
from till.money import parse
from till.receipt import render


def main(arguments):
    basket = Basket()
    for number, argument in enumerate(arguments, 1):
        count, _, price = argument.partition("x")
        basket.add(f"item {number}", parse(price), int(count))
    print(render(basket))


if __name__ == "__main__":
    main(sys.argv[1:])
