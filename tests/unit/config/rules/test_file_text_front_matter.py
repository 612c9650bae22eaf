"""Front matter as it is found in public repositories, where it is often no YAML."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from core.config.rules.file_text import get_text, parse_patterns, split_front_matter


def read(*lines):
    return split_front_matter("\n".join(("---", *lines, "---", "Text")))


def test_an_alias_that_is_none_and_a_colon_in_a_description_are_read():
    front, body = read("description: Use when: always", "globs: *.ts,*.tsx")
    assert (front["description"], body) == ("Use when: always", "Text")
    assert list(parse_patterns(front, "globs")) == ["*.ts", "*.tsx"]


def test_of_two_blocks_the_first_that_says_something_counts_for_a_key():
    front, body = read("description: ", "globs: **/a.md,**/b.md", "---", "---", 'description: "Real"', 'globs: "x"')
    assert (front["description"], get_text(front, "globs"), body) == ("Real", "**/a.md,**/b.md", "Text")


def test_quotes_comments_lists_and_folded_text():
    front, _ = read(
        *("# ours", "description: >", "  Two", "  lines", "globs:  # all of it", "- a.py", "- 'b, c.py' # too"),
        "alwaysApply: true # yes",
    )
    assert front["description"] == "Two lines"
    assert list(parse_patterns(front, "globs")) == ["a.py", "b", "c.py"]
    assert front["alwaysApply"] == "true"


def test_a_rule_of_dashes_over_a_text_is_text():
    assert split_front_matter("---\n\nA text, no key\n\n---\nMore")[1].startswith("---")
    assert split_front_matter("---\nnever: closed\n")[1].startswith("---")


@given(st.text(max_size=200))
@example("---\n---\n")
@example("---\n- a\n---\n")
def test_nothing_is_lost_that_is_no_front_matter(text):
    front, body = split_front_matter(text)
    assert text.endswith(body)
    assert front or body == text or set(text[: len(text) - len(body)]) <= set("- \t\n")


PATTERN = st.text(alphabet="ab*/.", min_size=1, max_size=8).filter(lambda each: not each.startswith("./"))


@given(st.lists(PATTERN, min_size=1, max_size=5))
def test_patterns_are_the_same_in_every_way_to_write_them(patterns):
    flow = "[" + ", ".join(f'"{pattern}"' for pattern in patterns) + "]"
    for way in (", ".join(patterns), flow, "".join(f"\n  - {pattern}" for pattern in patterns)):
        front, _ = read(f"globs: {way}")
        assert list(parse_patterns(front, "globs")) == patterns
