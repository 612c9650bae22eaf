from __future__ import annotations

import unicodedata

import pytest

from core.text.exposure import expose_text
from core.text.unseen_text import describe_unseen, find_unseen


@pytest.mark.parametrize(
    ("line", "signs"),
    [
        ('NAME = "shop"\x1b]0;x\x07', ["\x1b", "\x07"]),
        ("a\u200bb", ["\u200b"]),
        ("user\u3164 = 1", ["\u3164"]),
        ("a\u200db", ["\u200d"]),
        ("if x: \u202e# end", ["\u202e"]),
        ("A\ufe0f", ["\ufe0f"]),
        ("a\u2800b", ["\u2800"]),
        ("a\rb", ["\r"]),
        ("x = 1\x0c", ["\x0c"]),
        ("\U000e0041\U000e0042", ["\U000e0041", "\U000e0042"]),
        ("x\u200fy", ["\u200f"]),
        ("\ufdd0", ["\ufdd0"]),
    ],
)
def test_n21_what_hides_is_found(line, signs):
    assert list(find_unseen(line)) == signs
    assert describe_unseen(b"", f"{line}\n".encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "line",
    [
        "⚠️ ✔️ ❤️ 1️⃣ 👍🏽",
        "👨‍👩‍👧 🧑‍💻 🏳️‍🌈",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "می\u200cخواهم",
        "क\u094d\u200dष",
        "עברית\u200f (x)",
        "葛\U000e0100",
        "⠋⠙\u2800⠸",
        "\x0c",
        "a\r",
        "10\u00a0€, 全角\u3000",
    ],
)
def test_n21_what_a_language_or_an_emoji_is_written_with_does_not_count(line):
    assert list(find_unseen(line)) == []


def test_n21_only_what_is_added_counts():
    old_line = b"\x1b[0m old\n"
    assert describe_unseen(old_line, old_line + b"new\n") == ""
    assert describe_unseen(old_line, old_line * 2) == "holds characters that can't be seen: U+001B"
    assert describe_unseen(b"", "a\u200bb\u200b\n\x07\n".encode()).endswith("seen: U+200B ×2, U+0007")


def test_n21_a_byte_order_mark_counts_where_it_is_new_or_inside():
    assert describe_unseen("\ufeffa\n".encode(), "\ufeffb\n".encode()) == ""
    assert describe_unseen(b"", "\ufeffa\n".encode()) == ""
    assert "U+FEFF" in describe_unseen(b"a\n", "\ufeffa\n".encode())
    assert "U+FEFF" in describe_unseen(b"", "a\n\ufeffb\n".encode())


def test_n21_another_encoding_is_read_as_it_is():
    assert "U+200B" in describe_unseen(b"", "\ufeffa\u200b\n".encode("utf-16-le"), "utf-16-le")
    assert describe_unseen(b"", "\ufeffa\n".encode("utf-16-le"), "utf-16-le") == ""


def test_n21_many_kinds_are_counted():
    assert describe_unseen(b"", b"\x01\x02\x03\x04\x05\x06\n").endswith("U+0001, U+0002, U+0003, U+0004 and 2 others")


def test_n21_whatever_counts_is_written_in_the_diff():
    for code in (*range(0x20), 0x7F, 0x9B, 0x200B, 0x202E, 0x2800, 0x3164, 0xFEFF, 0xE0041):
        for sign in find_unseen(f"a{chr(code)}b"):
            assert expose_text(f"a{sign}b") != f"a{sign}b"
            assert sign not in expose_text(f"a{sign}b")


def test_n23_whatever_is_drawn_as_a_control_or_a_format_counts():
    for code in range(0x110000):
        sign = chr(code)
        if unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and sign not in "\t\n":
            assert list(find_unseen(f'x = "a{sign}b"')) == [sign], hex(code)


def test_n23_a_byte_that_is_a_control_in_latin_1_counts_where_the_line_is_no_utf_8():
    assert describe_unseen(b"", b"caf\xe9 \x9b31m\n").endswith("seen: U+009B")
    assert describe_unseen(b"", b"caf\xe9\n") == ""
    assert describe_unseen(b"caf\xe9 \x9b31m\n", b"caf\xe9 \x9b31m\nnew\n") == ""


@pytest.mark.parametrize(
    "line",
    [
        "رقم \u0600١٢",
        "آية\u06dd٤٥",
        "\u070fܐܒ",
        "\U000110bd\U00011083",
        "\U00013000\U00013430\U00013001",
        "سلام\u061c (x)",
    ],
)
def test_n23_signs_of_a_script_are_ordinary_in_its_texts(line):
    assert list(find_unseen(line)) == []
