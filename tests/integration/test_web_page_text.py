"""The page shows foreign text as the screen does: the same characters are exposed, in the same words."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import unicodedata

import pytest

from core.text.exposure import EMOJI_BASES, MAX_MARKS, OWN_SIGNS, SIGN_TWINS, UNSEEN, expose_text, is_unseen
from tests.contract.source_tree import ROOT

SOURCE = ROOT / "core" / "transports" / "http" / "static" / "visible.js"
NODE = shutil.which("node")
TEXTS = (
    'NAME = "shop"\x1b]0;evil()\x07',
    "a\u200b\u3164\u2800\u00a0\u202e",
    "‹U+200B› ‹ x › ␛[0m",
    "⚠️ ✅️ 1️⃣ 👍🏽 👨\u200d💻 A\ufe0f",
    "e\u0301 x\u0304 שָׁ क़ \u0301",
    "日本語 отчёт naïve ½ … “x”",
    "a\r\x9b1m",
    "x\u2212y \u2010 ‹byte FF›",
)
# A browser may know more letters than this Python, or fewer: those are not compared.
COMPARE = """
import { readFileSync } from "node:fs";
const { visible } = await import(process.argv[1]);
const texts = JSON.parse(readFileSync(0, "utf8"));
const kept = [];
for (let code = 0; code < 0x110000; code += 1) {
  const sign = String.fromCodePoint(code);
  if (visible(sign) === sign || /^\\p{Cn}$/u.test(sign)) kept.push(code);
}
console.log(JSON.stringify([kept, texts.map(visible)]));
"""


def list_ranges(characters: str) -> str:
    matches = re.findall(r"(.)(?:-(.))?", characters, re.DOTALL)
    return " ".join(f"{ord(low):x}-{ord(high):x}" if high else f"{ord(low):x}" for low, high in matches)


@pytest.mark.parametrize(
    ("name", "characters"),
    [("UNSEEN", UNSEEN), ("OWN_SIGNS", OWN_SIGNS), ("SIGN_TWINS", SIGN_TWINS), ("EMOJI_BASES", EMOJI_BASES)],
)
def test_n21_the_page_has_the_same_set_of_characters(name, characters):
    table = re.search(rf"const {name} =\n((?:  \".*\"(?: \+)?\n?)+);", SOURCE.read_text(encoding="utf-8"))
    assert table
    assert "".join(re.findall(r'"(.*)"', table[1])) == list_ranges(characters)
    assert f"const MAX_MARKS = {MAX_MARKS};" in SOURCE.read_text(encoding="utf-8")


def test_n21_no_text_reaches_the_page_but_by_that_set():
    review = SOURCE.with_name("review.js").read_text(encoding="utf-8")
    assert 'import { visible } from "./visible.js";' in review
    assert "function visible" not in review


@pytest.mark.skipif(NODE is None, reason="there is no node here; the tables are compared above")
def test_n21_the_page_exposes_what_the_screen_exposes(tmp_path):
    (tmp_path / "visible.mjs").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    assert NODE is not None
    run = subprocess.run(
        [NODE, "--input-type=module", "-e", COMPARE, str(tmp_path / "visible.mjs")],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    visible_codes, exposed_texts = json.loads(run.stdout)
    assert exposed_texts == [expose_text(text) for text in TEXTS]
    seen = set(visible_codes)
    for code in range(0x110000):
        sign = chr(code)
        is_kept = expose_text(sign) == sign
        if sign.isalnum():  # which letters pass for others is the screen's to say
            is_kept = not is_unseen(sign) and unicodedata.normalize("NFC", sign) == sign
        if unicodedata.category(sign) != "Cn":
            assert (code in seen) == is_kept, hex(code)
