"""What somebody decides by can be read back from how it is shown, so that texts that differ are never shown alike."""

from __future__ import annotations

import re
import unicodedata
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.text.exposure import (
    TAB_SIZE,
    UNSEEN_CATEGORIES,
    expose_blanks,
    expose_line,
    expose_text,
    expose_unseen,
    is_unseen,
)
from tests.support.exposed_text import read_back

SEQUENCES = ("\x1b", "\x1b[", "\x9b", "\x1b]", "\x9d", "\x07", "\x1b\\", "\x9c", "\x1bP", "m", "0;", "x")
ODD = list(
    "ab \t\r\x0c\x1b\x07\x00\x7f\x85\x9b‹›·×U+20B␛␊␣⇥⊘…\u00a0\u00ad\u200b\u200c\u200d\u2003\u2028\u202e\u2066\u202f"
    "\u205f\u2800\u3000\u3164\u1160\u1100\u1161\ufe0f\ufe0e\u20e3\ufeff\U000e0041\U000e0042\ue000\U0010ffff\ud83d\udc80\u0378"
    "\u0301\u0300\u0338\u0323\u05b4\u064b\u0e31\u093cée\u212b\u00c5\u0958\u0915⚠✅👍🏽👨1#асхкΑαν𝐞ｅǃªĿꓑᎪ日ー한"
)
LINES = st.lists(st.one_of(st.sampled_from(ODD), st.characters(exclude_characters="\n")), max_size=12).map("".join)


@given(LINES)
@example("‹U+200B›")
@example("‹x·Cyrillic›")
@example("\u200b\u200b‹U+200B×2›")
@example("a\t\t b \t ")
@example("е\u0301\u0301")
@example("1\ufe0f\u20e32\ufe0f")
def test_n21_a_line_can_be_read_back_from_how_it_is_shown(line):
    assert read_back(expose_blanks(expose_text(line))) == line
    assert read_back(expose_line(line, is_strict=True)) == line


def test_n21_each_code_point_can_be_read_back_and_is_seen():
    planes = [*range(0x40000), *range(0xE0000, 0xF0000)]
    unassigned = [*range(0x40000, 0xE0000), *range(0xF0000, 0x110000)]
    assert {unicodedata.category(chr(code)) for code in unassigned} <= UNSEEN_CATEGORIES
    codes = [code for code in (*planes, *unassigned[::97]) if code != 0x0A]
    for start in range(0, len(codes), 64):
        line = " ".join(map(chr, codes[start : start + 64]))
        exposed_line = expose_blanks(expose_text(line))
        assert read_back(exposed_line) == line
        assert not any(unicodedata.category(sign) in UNSEEN_CATEGORIES for sign in exposed_line if sign != " ")


def test_n21_no_sequence_of_a_terminal_hides_a_letter():
    for size in (1, 2, 3):
        for parts in product(SEQUENCES, repeat=size):
            line = "".join(parts)
            assert read_back(expose_text(line)) == line


@given(LINES)
def test_n21_what_is_shown_has_no_second_form(line):
    left = re.sub(r"‹. U\+[0-9A-F]+(×\d+)?›", "", expose_text(line), flags=re.DOTALL)
    assert unicodedata.normalize("NFC", left) == left


@given(st.lists(LINES, max_size=4))
def test_n21_lines_stay_lines(lines):
    assert expose_text("\n".join(lines)).split("\n") == ([expose_text(line) for line in lines] or [""])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('NAME = "shop"\x1b]0;evil()\x07', 'NAME = "shop"␛]0;evil()␇'),
        ("a\u200b\u200bb", "a‹U+200B×2›b"),
        ("a\u3164 = 1", "a‹U+3164› = 1"),
        ("x\ufe0f", "x‹U+FE0F›"),
        ("a\u200db", "a‹U+200D›b"),
        ("👨\u200d💻", "👨‹U+200D›💻"),
        ("✅\ufe0f", "✅‹U+FE0F›"),
        ("a\u00a0b\u2800", "a‹U+00A0›b‹U+2800›"),
        ("if a\r\x1b", "if a␍␛"),
        ("e\u0301", "e‹U+0301›"),
        ("a\u0316\u0317\u0318\u0319\u031a", "a\u0316\u0317\u0318\u0319‹U+031A›"),
        ("‹U+200B›", "‹‹ U+2039›U+200B›"),
        ("␛[0m", "‹␛ U+241B›[0m"),
        ("\ta\tb  ", "⇥   a⇥  b␣␣"),
        ("ma\u0445 = 1", "ma‹х·Cyrillic› = 1"),
        ("\u0430\u0440\u0435(1)", "‹аре·Cyrillic›(1)"),
        ("𝐞xec(x)", "‹𝐞 U+1D41E›xec(x)"),
        ("environment\u01c3=PROD", "environment‹ǃ U+01C3›=PROD"),
        ("\u212b", "‹\u212b U+212B›"),
    ],
)
def test_n21_what_hides_or_passes_for_something_else_is_named(text, shown):
    assert expose_blanks(expose_text(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "# Проверка: что у нас в очереди, как и раньше, с а и о",
        "ОС и ТЕСТ НОМЕР 5 этого проекта",
        "# Ελληνικά: το κείμενο",
        "# 日本語のコメント、カタカナ（テスト）「第一」",
        "// 한국어 주석",
        "# हिन्दी में टिप्पणी",
        "# ไฟล์ภาษาไทย",
        "# עברית ועוד",
        "# تعليق بالعربية",
        "# tiếng Việt, naïve café, größe, Ţară, 1ª, nº",
        "Δt = 5 μs; σ_max, λ, ∇²φ ≤ π/2 → ½",
        "✅ done ⚠️ careful 1️⃣ 👍🏽 🇩🇪",
        "── box │ ▌ • “quoted” — …",
        "‹ previous | next ›",
    ],
)
def test_n21_the_worlds_languages_stay_calm(text):
    assert expose_text(text) == text


def test_n21_a_tab_and_the_blanks_up_to_its_stop_are_not_alike():
    between = ("\t", " \t", "  \t", *(" " * number for number in range(TAB_SIZE + 1)))
    assert len({expose_blanks(f"a{blanks}b") for blanks in between}) == len(between)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm \u2010rf", "rm ‹\u2010 U+2010›rf"),
        ("a\u2011b", "a‹\u2011 U+2011›b"),
        ("https:\u2215\u2044x", "https:‹\u2215 U+2215›‹\u2044 U+2044›x"),
        ("evil\u2024com", "evil‹\u2024 U+2024›com"),
        ("a\u2236b\ua789c", "a‹\u2236 U+2236›b‹\ua789 U+A789›c"),
        ("a \u2223 b \u2217 \u223c", "a ‹\u2223 U+2223› b ‹\u2217 U+2217› ‹\u223c U+223C›"),
        ("s\u217dope\ua78a", "s‹\u217d U+217D›ope‹\ua78a U+A78A›"),
    ],
)
def test_n21_signs_and_numerals_that_look_like_ascii_are_named(text, shown):
    assert expose_text(text) == shown


@given(LINES)
@example("‹U+200B›")
@example("\u200b\u200b‹U+200B×2›")
@example("1\ufe0f\u20e32\ufe0f")
def test_n21_a_line_for_a_program_can_be_read_back_and_hides_nothing(line):
    exposed_line = expose_unseen(line)
    assert read_back(exposed_line.replace("\t", "‹U+0009›")) == line
    assert not any(
        is_unseen(sign) for sign in re.sub("[\t \ufe0f\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]", "", exposed_line)
    )


def test_n21_a_line_for_a_program_keeps_its_letters():
    assert expose_unseen("ma\u0445 = e\u0301\t 日本  ") == "ma\u0445 = e\u0301\t 日本  "
    assert expose_unseen("a\u200b\u200b␛\x1b") == "a‹U+200B×2›‹␛ U+241B›␛"
