from __future__ import annotations

import pytest

from core.cli.commands import parse


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["a b", "c"], "'a b' c"),
        (["HEAD~3", "c"], "HEAD~3 c"),
        (["'a b' c"], "'a b' c"),
        ([], ""),
    ],
)
def test_words_of_the_shell_stay_words_of_the_command(words, given):
    assert parse(["explain", "/summary", *words]).given == given
