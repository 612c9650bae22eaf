import unittest

from till.money import parse, percent, show


class MoneyTest(unittest.TestCase):
    def test_parse_reads_whole_and_cents(self):
        self.assertEqual(parse("2.50"), 250)
        self.assertEqual(parse("3"), 300)

    def test_parse_refuses_a_third_digit(self):
        with self.assertRaises(ValueError):
            parse("1.999")

    def test_show_keeps_the_sign(self):
        self.assertEqual(show(-5), "-0.05")

    def test_percent_rounds_half_up(self):
        self.assertEqual(percent(50, 5), 3)
        self.assertEqual(percent(250, 7), 18)
