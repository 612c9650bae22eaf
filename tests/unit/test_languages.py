"""A file's language is told by its name, in words that the highlighter knows."""

from __future__ import annotations

import pytest
from pygments.lexers import get_lexer_by_name

from core.languages import _BY_ENDING, _BY_NAME, detect_language

TOLD = {"a/b.py": "python", "A.TSX": "tsx", "deep/Dockerfile": "docker", "Makefile": "make", "py": "", "a.xyz": ""}


@pytest.mark.parametrize(("path", "language"), TOLD.items())
def test_names_tell_the_language(path, language):
    assert detect_language(path) == language


@pytest.mark.parametrize("language", sorted({*_BY_ENDING, *_BY_NAME.values()}))
def test_every_language_is_known_to_pygments(language):
    assert get_lexer_by_name(language)
