"""The model itself, where the extra is installed; what is missing or is another one is told."""

from __future__ import annotations

import math
import sys

import pytest

from core.errors import ConfigError
from core.index import minilm
from core.index.minilm import DIMENSIONS, MiniLm, check_installed, load_minilm


def is_installed():
    try:
        check_installed()
    except ConfigError:
        return False
    return True


needs_extra = pytest.mark.skipif(not is_installed(), reason="the extra [minilm] is not installed")


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)


@needs_extra
def test_texts_of_one_meaning_are_near_and_others_are_not():
    eating, bread, baby = load_minilm().embed(
        ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    )
    assert len(eating) == DIMENSIONS
    assert cosine(eating, bread) > 0.7
    assert cosine(eating, baby) < 0


@needs_extra
def test_a_vector_depends_on_its_text_alone():
    alone = load_minilm().embed(["def close(self): pass"])
    assert load_minilm().embed(["x " * 5_000, "def close(self): pass", ""])[1:2] == alone


def test_what_is_not_installed_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr(minilm, "_RUNTIME", "no_such_runtime")
    with pytest.raises(ConfigError, match=r"no_such_runtime.* install .*\[minilm\]"):
        MiniLm()


def test_other_weights_are_refused(monkeypatch, tmp_path):
    (tmp_path / "other_weights.py").write_text(
        "from pathlib import Path\n\n\ndef model_path():\n    return Path(__file__)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(minilm, "_WEIGHTS", "other_weights")
    monkeypatch.setattr(minilm, "_RUNTIME", "json")
    with pytest.raises(ConfigError, match="is not the expected model"):
        MiniLm()
