import unittest

from till.discount import rate_for


class DiscountTest(unittest.TestCase):
    def test_small_counts_get_none(self):
        self.assertEqual(rate_for(9), 0)

    def test_each_step_starts_at_its_number(self):
        self.assertEqual([rate_for(count) for count in (10, 50, 100)], [5, 10, 15])
