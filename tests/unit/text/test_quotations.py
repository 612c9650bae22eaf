from __future__ import annotations

import pytest

from core.text.quotations import QuotedPlace, locate_quotation

LINES = dict(enumerate(["import os", "", "def main():", "    return os.name", "", "def other():", "    return 1"], 1))


@pytest.mark.parametrize(
    ("quote", "said", "expected"),
    [
        ("def main():\n    return os.name", (3, 4), (3, 4, "")),
        ("def main():\n    return os.name", (1, 2), (3, 4, "")),
        ("def main():\n  return os.name  ", (90, 91), (3, 4, "")),
        ("def main():\n    return os.name", (3, 3), (3, 4, "")),  # more lines than were said
        ("def main():\n    # ...\n    return 1", (3, 7), (3, 7, "")),
        ("def nowhere():", (3, 3), (3, 3, "these lines have other text")),
        ("def nowhere():", (3, 9), (3, 9, "the file has 7 lines")),
        ("", (3, 4), (3, 4, "")),
        ("", (3, 40), (3, 40, "the file has 7 lines")),
    ],
)
def test_a_quotation_is_where_it_is_said_to_be_or_else_where_it_is_found(quote, said, expected):
    assert locate_quotation(quote, QuotedPlace(*said), LINES, has_all=True) == QuotedPlace(*expected)


def test_what_is_found_twice_stays_where_it_was_said_to_be_and_is_doubted():
    lines = {1: "a", 2: "b", 3: "a"}
    assert locate_quotation("a", QuotedPlace(2, 2), lines) == QuotedPlace(2, 2, "these lines have other text")


def test_without_a_file_there_is_a_doubt():
    assert locate_quotation("a", QuotedPlace(1, 1), {}).doubt == "there is no such file"
    assert locate_quotation("a", QuotedPlace(1, 1), {}, is_whole=False).doubt == "the file is not in the diff"
