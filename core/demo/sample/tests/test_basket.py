import unittest

from till.basket import Basket
from till.receipt import render


class BasketTest(unittest.TestCase):
    def test_total_is_net_and_tax_of_every_line(self):
        basket = Basket()
        basket.add("tea", 300, 2)
        basket.add("cup", 1000)
        self.assertEqual(basket.total, 1712)

    def test_the_same_article_is_one_line(self):
        basket = Basket()
        basket.add("nail", 10, 6)
        basket.add("nail", 10, 4)
        self.assertEqual([(line.name, line.count) for line in basket.lines], [("nail", 10)])

    def test_a_count_below_one_is_refused(self):
        with self.assertRaises(ValueError):
            Basket().add("tea", 300, 0)


class ReceiptTest(unittest.TestCase):
    def test_the_total_stands_last(self):
        basket = Basket()
        basket.add("tea", 300)
        self.assertTrue(render(basket).splitlines()[-1].endswith("3.21"))
