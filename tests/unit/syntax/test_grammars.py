"""Grammars: a parser that takes too long is stopped, and serves the next text all the same."""

from __future__ import annotations

import pytest

from core.syntax import grammars
from core.syntax.grammars import parse_syntax


@pytest.fixture
def hurried(monkeypatch):
    grammars._load_parser.cache_clear()
    monkeypatch.setattr(grammars, "_LONGEST", 10)
    yield
    grammars._load_parser.cache_clear()


def test_a_text_over_which_a_parser_takes_too_long_is_of_no_language(hurried):
    assert parse_syntax("a.html", "<div>\n" * 10_000) is None
    assert parse_syntax("a.py", "x = 1\n").type == "module"


def test_a_text_that_is_too_long_is_not_parsed(monkeypatch):
    monkeypatch.setattr(grammars, "_LARGEST", 5)
    assert parse_syntax("a.py", "x = 12") is None


def test_what_is_no_language_has_no_tree():
    assert parse_syntax("a.cobol", "MOVE 1 TO X.") is None
