from __future__ import annotations

import pytest

from core.cli.commit import CommitArguments
from core.cli.session_changes import is_trusted
from tests.support.trust import trust


@pytest.mark.parametrize(
    ("options", "is_known", "looks"),
    [({"dry_run": True}, False, 0), ({"trust": True}, False, 0), ({}, True, 0), ({}, False, 1)],
)
def test_a_repository_is_looked_into_only_where_nothing_else_lets_it_run(tmp_path, options, is_known, looks):
    if is_known:
        trust(tmp_path)
    roots = []

    def find_none(root):
        roots.append(root)
        return ()

    assert is_trusted(CommitArguments(directory=tmp_path, **options), find_programs=find_none)
    assert roots == [tmp_path] * looks


def test_a_repository_that_would_run_something_is_refused_without_trust(tmp_path, capsys):
    assert not is_trusted(
        CommitArguments(directory=tmp_path), find_programs=lambda _: ("gpg.program", "the hook a", "b", "c")
    )
    assert "may run programs of its repository: gpg.program, the hook a, b, 1 more." in capsys.readouterr().err
