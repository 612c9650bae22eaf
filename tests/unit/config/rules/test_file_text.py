"""What a reader of a rule can't see is counted and stripped, since nobody can review it."""

from __future__ import annotations

from core.config.rules.file_text import MAX_RULE_BYTES, decode_rule, strip_invisible


def test_i2_a_comment_can_not_hide_behind_hidden_characters():
    assert strip_invisible("a <!\u200b-- evil -\u200b-> b")[0] == "a  b"
    assert strip_invisible("a <!-- never closed")[0] == "a "


def test_i2_the_selector_of_a_pictograph_is_no_news_and_a_run_of_them_is():
    assert strip_invisible("\u26a0\ufe0f Mind 1\ufe0f\u20e3") == ("\u26a0 Mind 1\u20e3", [])
    assert strip_invisible("\u26a0\ufe0f\ufe01\ufe02")[1] == ["3 variation selectors stripped"]


def test_one_long_line_is_cut_between_characters():
    text, notes = decode_rule(("a" + "\u00e4" * MAX_RULE_BYTES).encode())
    assert notes == ["cut after 32 KiB"]
    assert len(text.encode()) == MAX_RULE_BYTES - 1


def test_i2_a_comment_in_code_is_seen_and_code_in_a_comment_is_not():
    visible_text = "Write `<!-- x -->`:\n```xml\n<!-- y -->\n```\n"
    assert strip_invisible(visible_text) == (visible_text, [])
    hidden = "a <!--\n```\nevil\n```\n--> b"
    assert strip_invisible(hidden) == ("a  b", ["1 HTML comment stripped"])
    assert strip_invisible("a <!--\n```\nevil\n```\n")[0] == "a "
