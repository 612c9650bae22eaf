"""A name is shown so that it can be read back: nothing is hidden, joined or dropped, and nothing looks like another."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.text.display_names import HIDDEN, display_name, expose_controls, shorten_model, to_one_line

ODD = list(
    "pay. /\u200b\u200d\u0430\u0440\u0443\u03b1\u03bf\uff50\u0301\u0300\ufe0f\u00ad\n\t\r\x1b\x7f\x85‹›␊␛…·×U+200B"
    "\u00a0\u00e1\u212b\u00c5\u00b5\u03bc\u2028\u202e\u2066\U000e0041\U000e0042\ud83d\udc80\U0010ffe9\ue000\ue001\u3164\u115f"
    "\u2024\u2044\u2019😀\U0001f3fb日力カロ口ー한\u1112\u1161ಲల०০٠۰ꓑꭰⲣ𝐩ℓ\u0e31\u093c|1lI0O_-"
)
# A list, since `text` makes one alphabet of both, in which the odd ones are as rare as any other.
CHARACTERS = st.one_of(st.sampled_from(ODD), st.characters())
NAMES = st.lists(CHARACTERS, min_size=1, max_size=12).map("".join)
_SHOWN = re.compile(r"‹byte (..)›|‹U\+([0-9A-F]+)›|‹(.) U\+([0-9A-F]+)›|‹([^‹›·]+)·[A-Z][A-Za-z-]+›|(.)", re.DOTALL)


def read_back(text: str) -> str:
    """What a name is, from how it is shown."""
    name = ""
    for byte, code, seen, its_code, letters, other in _SHOWN.findall(text):
        if byte:
            name += chr(0x10FF00 + int(byte, 16))
        elif code:
            name += chr(int(code, 16))
        elif seen:
            assert chr(int(its_code, 16)) == seen
            name += seen
        elif letters:
            name += letters
        else:
            name += chr(ord(other) - 0x2400) if "\u2400" <= other <= "\u241f" else other
    return name


@given(NAMES)
@example("\U000e0041\U000e0042")
@example("a\u0302\u0301\u0301\u0301\u0301")
@example("‹U+200B›")
@example("\ua840")
def test_n14_a_name_can_be_read_back_from_how_it_is_shown(name):
    displayed_name = display_name(name)
    assert read_back(displayed_name) == name
    assert not re.search(f"[{HIDDEN}\n\t]", displayed_name)
    assert displayed_name == displayed_name.strip()
    assert displayed_name.encode("utf-8")


@given(NAMES)
@example("...")
def test_n14_what_is_shown_of_a_name_has_no_other_form_and_only_letters_of_everyday_alphabets(name):
    left = re.sub(r"‹. U\+[0-9A-F]+›", "", display_name(name), flags=re.DOTALL)
    assert unicodedata.normalize("NFKC", left) == left.replace("…", "...")
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for character in left)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("pa\u200by.py", "pa‹U+200B›y.py"),
        ("р\u0430y.py", "‹ра·Cyrillic›y.py"),
        ("ра\u0443.py", "‹рау·Cyrillic›.py"),
        ("ꓑꓮꓬ", "‹ꓑꓮꓬ·Lisu›"),
        ("\u212bngström", "‹\u212b U+212B›ngström"),
        ("\u00b5.c", "‹\u00b5 U+00B5›.c"),
        ("カ.txt", "‹カ·Katakana›.txt"),
        ("a\nb\tc\x1b[2J", "a␊b␉c␛[2J"),
        ("caf\U0010ffe9", "caf‹byte E9›"),
        ("a\udce9", "a‹U+DCE9›"),
        ("\U000e0041\U000e0042", "‹U+E0041›‹U+E0042›"),
        ("pay  .py ", "pay ‹U+0020›.py‹U+0020›"),
        ("don\u2019t", "don‹U+2019›t"),
        ("pay\u115f.py", "pay‹U+115F›.py"),
        ("\u3164", "‹U+3164›"),
        ("f\u1d0fo", "f‹\u1d0f U+1D0F›o"),
    ],
)
def test_n14_what_could_be_taken_for_something_else_is_told(name, shown):
    assert display_name(name) == shown


@pytest.mark.parametrize(
    "name",
    [
        "отчёт за год.xlsx",
        "Ελληνικά/κείμενο.txt",
        "日本語のファイル名、第一.md",
        "カタカナ メモ.txt",
        "한국어.hwp",
        "中文文件.doc",
        "हिन्दी_फ़ाइल.txt",
        "ไฟล์ภาษาไทย.txt",
        "עברית.txt",
        "ملف عربي.txt",
        "Việt Nam.md",
        "görüş-ğü.py",
        "naïve/😀.md",
        "tiếng_việt",
        "Kč §5 ©.txt",
    ],
)
def test_n14_the_worlds_languages_are_left_in_peace(name):
    assert display_name(unicodedata.normalize("NFC", name)) == unicodedata.normalize("NFC", name)


@given(st.lists(CHARACTERS, max_size=20).map("".join))
def test_n14_prose_is_one_line_in_which_nothing_is_hidden(text):
    line = to_one_line(text)
    assert not re.search(f"[{HIDDEN}\n\t\r]", line)
    assert len(line.splitlines()) <= 1


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("scripted//home/me/demo.yaml", "scripted/demo.yaml"),
        ("scripted/demo", "scripted/demo"),
        ("llamacpp//home/me/models/Qwen3-8B.gguf", "llamacpp/Qwen3-8B.gguf"),
        ("llamacpp/models/Qwen3-8B.GGUF", "llamacpp/Qwen3-8B.GGUF"),
        ("llamacpp/ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", "llamacpp/ggml-org/gemma-3-4b-it-GGUF:Q4_K_M"),
        ("vllm//srv/models/Qwen3-8B", "vllm/Qwen3-8B"),
        ("openai/org/model", "openai/org/model"),
        ("", ""),
    ],
)
def test_the_name_of_a_file_tells_nothing_of_the_machine(model, shown):
    assert shorten_model(model) == shown


def test_n21_runs_that_differ_are_written_differently():
    runs = ["".join(chr(0xE0100 + (number * step) % 239) for number in range(90)) for step in (1, 2, 3)]
    runs += ["\U000e0165\U000e0166", "\U000e0165\U000e0167", "\U000e0165\U000e0165", "\U000e0165"]
    runs += [runs[0][:-1] + "\U000e0101", *("a" + "\u0301" * 4 + last for last in ("\u0302", "\u0303", "\u0302\u0303"))]
    texts = [expose_controls(run) for run in runs]
    assert len(set(texts)) == len(runs)
    assert expose_controls("\U000e0165\U000e0166\U000e0166") == "‹U+E0165›‹U+E0166×2›"
