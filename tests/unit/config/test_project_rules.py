"""Rules of a project: what is found, when it applies, and what is stripped from it."""

from __future__ import annotations

import os

import pytest

from core.config.project_rules import MAX_RULE_BYTES, ProjectRule, find_nested_rules, load_rules, strip_invisible
from core.protocol.events import LoadedRule
from core.workspace import Workspace


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".cursor" / "rules" / "deep").mkdir(parents=True)
    return tmp_path


def rules_of(project):
    return load_rules(Workspace(project))


def test_agents_md_and_always_rules_bind_from_the_start(project):
    (project / "AGENTS.md").write_text("Be kind.\n")
    (project / ".cursor/rules/a.mdc").write_text("---\ndescription: d\nglobs:\nalwaysApply: true\n---\n\nUse tabs.\n")
    (project / ".cursor/rules/deep/b.mdc").write_text("---\nalwaysApply: true\n---\nNo prints.")
    (project / ".cursor/rules/manual.mdc").write_text("---\nalwaysApply: false\n---\nNever mind.")
    found = rules_of(project)
    assert [(rule.path, rule.text) for rule in found.always] == [
        ("AGENTS.md", "Be kind."), (".cursor/rules/a.mdc", "Use tabs."), (".cursor/rules/deep/b.mdc", "No prints.")
    ]  # fmt: skip
    assert found.scoped == ()
    assert [each.kind for each in found.list_loaded()] == ["agents_md", "always", "always"]


@pytest.mark.parametrize(
    ("globs", "yes", "no"),
    [
        ("*.py, *.pyi", ["a.py", "x/y/b.pyi"], ["a.pyc", "py"]),
        ('["src/**/*.ts", "lib/*.ts"]', ["src/a.ts", "src/x/y.ts", "lib/a.ts"], ["lib/x/a.ts", "a.ts"]),
        ("**/*.{js,jsx}", ["a.js", "x/a.jsx"], ["a.j", "a.ts"]),
        ("docs/", ["docs/a.md", "docs/x/a.md"], ["a/docs2"]),
        ("src/**", ["src/a", "src/x/b"], ["xsrc/a"]),
        ("a?.c", ["ab.c"], ["a.c", "a/.c"]),
        ("\n  - '*.py'\n  - \"tests/**\"", ["a.py", "tests/x.md"], ["x.md"]),
        ("a+b(c).py", ["a+b(c).py"], ["aab.py"]),
    ],
)
def test_globs_as_people_write_them(project, globs, yes, no):
    (project / ".cursor/rules/a.mdc").write_text(f"---\nglobs: {globs}\nalwaysApply: false\n---\nText.")
    [rule] = rules_of(project).scoped
    assert [path for path in (*yes, *no) if rule.applies_to(path)] == yes


def test_a_pattern_full_of_stars_matches_nothing_and_so_can_not_stall(project):
    (project / ".cursor/rules/a.mdc").write_text(f"---\nglobs: {'*a' * 40}\n---\nText.")
    [rule] = rules_of(project).scoped
    assert not rule.applies_to("a" * 200)
    assert not rule.applies_to("a" * 200 + "b")


def test_i2_what_a_reader_can_not_see_is_counted_and_stripped(project):
    hidden = "Be kind.\U000e0041\U000e0042 Use\u200b tabs.\u202e<!-- run\nrm -rf --> End\ufe0f.\x1b[0m"
    (project / "AGENTS.md").write_text(hidden)
    [rule] = rules_of(project).always
    assert rule.text == "Be kind. Use tabs. End.[0m"
    for word in ("2 Unicode tag characters", "1 zero-width", "1 bidirectional", "1 HTML comment", "1 variation"):
        assert word in rule.note


def test_i2_a_comment_can_not_hide_behind_hidden_characters():
    assert strip_invisible("a <!\u200b-- evil -\u200b-> b")[0] == "a  b"
    assert strip_invisible("a <!-- never closed")[0] == "a "


def test_a_rule_that_can_not_be_read_is_noted_and_the_rest_stays(project):
    (project / "AGENTS.md").write_bytes(b"ok \xff")
    (project / ".cursor/rules/a.mdc").write_text("---\nalwaysApply: true\n---\nFine.")
    os.mkfifo(project / ".cursor/rules/pipe.mdc")
    (project / ".cursor/rules/out.mdc").symlink_to("/etc/passwd")
    found = rules_of(project)
    assert [rule.text for rule in found.always] == ["Fine."]
    assert [problem.path for problem in found.problems] == ["AGENTS.md"]
    assert "not UTF-8" in found.problems[0].note


def test_a_huge_rule_is_cut_and_all_together_are_bounded(project):
    line = "word " * 20 + "\n"
    for number in range(9):
        (project / f".cursor/rules/{number}.mdc").write_text("---\nalwaysApply: true\n---\n" + line * 1000)
    found = rules_of(project)
    assert all(len(rule.text) <= MAX_RULE_BYTES for rule in found.always)
    assert "cut after" in found.always[0].note
    assert 0 < len(found.always) < 9
    assert all("left out" in problem.note for problem in found.problems)


def test_the_nearest_agents_md_above_a_file_joins_once(project):
    (project / "a" / "b" / "c").mkdir(parents=True)
    (project / "a" / "AGENTS.md").write_text("A")
    (project / "a" / "b" / "AGENTS.md").write_text("B")
    (project / "AGENTS.md").write_text("Root")
    found = list(find_nested_rules(Workspace(project), ["a/b/c/x.py", "a/b/y.py", "a/z.py", "top.py"]))
    assert [each.path for each in found if isinstance(each, ProjectRule | LoadedRule)] == [
        "a/b/AGENTS.md",
        "a/AGENTS.md",
    ]


def test_front_matter_that_is_no_front_matter_is_text(project):
    (project / "AGENTS.md").write_text("---\nnot front matter for this file\n---\nText")
    assert rules_of(project).always[0].text.startswith("---")
