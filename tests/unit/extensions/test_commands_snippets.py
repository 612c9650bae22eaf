"""Snippets of a project and of the user."""

from __future__ import annotations

from core.engine.shared.project_trust import read_project_extensions
from core.extensions.commands import load_snippets
from core.extensions.extension_files import is_extension_path


def test_a_snippet_is_a_text_by_the_name_of_its_file_and_the_project_comes_first(places):
    places.write({".agent-tui/snippets/git/bug.md": "---\ndescription: A bug\n---\n$0 is wrong.\n"})
    places.write({"snippets/bug.md": "Mine.", "snippets/plan first.md": "# Plan\n\nthen build."}, places.config)
    snippet_set = load_snippets(places.folders())
    assert [(snippet.name, snippet.description, snippet.text, snippet.scope) for snippet in snippet_set.snippets] == [
        ("bug", "A bug", "$0 is wrong.", "project"),
        ("plan-first", "Plan", "# Plan\n\nthen build.", "user"),
    ]
    assert "is already 'bug'" in snippet_set.skipped[0].reason
    assert "can't be written in a prompt" in snippet_set.snippets[1].problems[0]


def test_one_that_says_nothing_or_that_was_changed_since_the_yes_is_none(places):
    places.write({".agent-tui/snippets/none.md": "---\ndescription: d\n---\n", ".agent-tui/snippets/a.md": "A."})
    snippet_set = load_snippets(places.folders(lambda path, _: not path.endswith("a.md")))
    assert snippet_set.snippets == ()
    assert sorted(skipped_file.reason for skipped_file in snippet_set.skipped) == [
        "it has changed since you trusted this project",
        "it is empty",
    ]


def test_without_trust_none_of_the_project_is_read(places):
    places.write({".agent-tui/snippets/a.md": "A."})
    assert load_snippets(places.folders(None)).snippets == ()


def test_its_bytes_are_part_of_the_users_yes(places):
    places.write({".agent-tui/snippets/a.md": "A."})
    seen = {}
    read_project_extensions(places.workspace, lambda path, data: seen.setdefault(path, data) is data)
    assert seen == {".agent-tui/snippets/a.md": b"A."}
    assert is_extension_path(".agent-tui/snippets/a.md")
    assert not is_extension_path("snippets/a.md")
