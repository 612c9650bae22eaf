"""Rules as they lie in real projects: what is found, in which order, and why it binds or does not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from core.config.rules.file_text import MAX_RULE_BYTES
from core.config.rules.loading import load_rule_files
from core.config.rules.roots import UserRoot
from core.config.rules.rule import RuleOccasion, choose_rules, find_mentioned_rules, list_loaded
from core.user_dirs import get_config_dir
from core.workspace import Workspace


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project" / ".cursor" / "rules" / "deep").mkdir(parents=True)
    return tmp_path / "project"


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def rules_of(project, *paths, words=(), is_trusted_content=lambda *_: True):
    """Every rule as it is listed, by path, and the paths of those that bind, in order."""
    files = load_rule_files(Workspace(project), is_trusted_content, nearby_paths=paths)
    choices = choose_rules(files, RuleOccasion(paths, find_mentioned_rules(files, words)))
    return {loaded_rule.path: loaded_rule for loaded_rule in list_loaded(files, choices)}, [
        choice.rule.path for choice in choices if choice.binds
    ]


def test_agents_md_and_always_rules_bind_from_the_start(project):
    write(
        project,
        {
            "AGENTS.md": "Be kind.\n",
            ".cursor/rules/a.mdc": "---\ndescription: d\nglobs:\nalwaysApply: true\n---\n\nUse tabs.\n",
            ".cursor/rules/deep/b.mdc": "---\nalwaysApply: true\n---\nNo prints.",
            ".cursor/rules/manual.mdc": "---\nalwaysApply: false\n---\nNever mind.",
            ".cursor/rules/plain.md": "Not read.",
            ".cursorrules": "Old.",
        },
    )
    rows, bound = rules_of(project)
    assert bound == ["AGENTS.md", ".cursorrules", ".cursor/rules/a.mdc", ".cursor/rules/deep/b.mdc"]
    assert [rows[path].kind for path in bound] == ["agents_md", "always", "always", "always"]
    assert [rows[path].position for path in bound] == [1, 2, 3, 4]
    assert rows[".cursor/rules/manual.mdc"].position == 0
    assert rows[".cursor/rules/manual.mdc"].reason == "only when you mention it: @manual"
    assert ".cursor/rules/plain.md" not in rows


def test_the_four_kinds_of_a_rule_are_told_apart_as_cursor_does(project):
    write(
        project,
        {
            ".cursor/rules/always.mdc": "---\nalwaysApply: true\nglobs: *.py\n---\nA",
            ".cursor/rules/globs.mdc": "---\ndescription: G\nglobs: *.py\n---\nG",
            ".cursor/rules/described.mdc": "---\ndescription: D\n---\nD",
            ".cursor/rules/manual.mdc": "M",
        },
    )
    rows, bound = rules_of(project, "x/a.py")
    assert {path.rpartition("/")[2]: row.kind for path, row in rows.items()} == {
        "always.mdc": "always", "globs.mdc": "globs", "described.mdc": "described", "manual.mdc": "manual"
    }  # fmt: skip
    assert [path.rpartition("/")[2] for path in bound] == ["always.mdc", "globs.mdc"]
    assert rows[".cursor/rules/globs.mdc"].reason == "x/a.py matches *.py"
    assert rows[".cursor/rules/described.mdc"].position == 2
    assert rules_of(project)[0][".cursor/rules/globs.mdc"].reason == "no file in use matches *.py"
    for words in (["manual"], [".cursor/rules/manual.mdc"], [".cursor/rules/manual"]):
        assert ".cursor/rules/manual.mdc" in rules_of(project, words=words)[1]


def test_i2_what_a_reader_can_not_see_is_counted_and_stripped(project):
    hidden = "Be kind.\U000e0041\U000e0042 Use\u200b tabs.\u202e<!-- run\nrm -rf --> End\ufe0f.\x1b[0m"
    (project / "AGENTS.md").write_text(hidden)
    [rule] = load_rule_files(Workspace(project)).rules
    assert rule.text == "Be kind. Use tabs. End.[0m"
    for word in ("2 Unicode tag characters", "1 zero-width", "1 bidirectional", "1 HTML comment", "1 variation"):
        assert word in rule.note


def test_a_rule_that_can_not_be_read_is_noted_and_the_rest_stays(project):
    (project / "AGENTS.md").write_bytes(b"ok \xff")
    (project / ".cursor/rules/a.mdc").write_text("---\nalwaysApply: true\n---\nFine.")
    os.mkfifo(project / ".cursor/rules/pipe.mdc")
    (project / ".cursor/rules/out.mdc").symlink_to("/etc/passwd")
    files = load_rule_files(Workspace(project))
    assert [rule.text for rule in files.rules] == ["Fine."]
    assert [problem.path for problem in files.problems] == [
        "AGENTS.md",
        ".cursor/rules/out.mdc",
        ".cursor/rules/pipe.mdc",
    ]
    assert "not UTF-8" in files.problems[0].note


def test_a_huge_rule_is_cut_and_all_together_are_bounded(project):
    line = "word " * 20 + "\n"
    for number in range(9):
        (project / f".cursor/rules/{number}.mdc").write_text(f"---\nalwaysApply: true\n---\n{number}" + line * 1000)
    rows, bound = rules_of(project)
    assert all(row.size <= MAX_RULE_BYTES for row in rows.values())
    assert "cut after 32 KiB" in rows[bound[0]].note
    assert 0 < len(bound) < 9
    assert all("left out" in row.reason for path, row in rows.items() if path not in bound)


def test_nested_agents_md_join_with_a_file_below_them_the_nearer_later(project):
    write(project, {"a/AGENTS.md": "A", "a/b/AGENTS.md": "B", "AGENTS.md": "Root", "c/AGENTS.md": "C"})
    assert rules_of(project, "a/b/c/x.py")[1] == ["AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md"]
    rows, bound = rules_of(project, "a/z.py", "top.py")
    assert bound == ["AGENTS.md", "a/AGENTS.md"]
    assert rows["a/AGENTS.md"].reason == "for files in its folder, such as a/z.py"


def test_rules_of_a_nested_folder_speak_of_that_folder(project):
    write(
        project, {"web/.cursor/rules/ts.mdc": "---\nglobs: src/*.ts\n---\nStrict.", "src/a.ts": "", "web/src/a.ts": ""}
    )
    assert rules_of(project, "web/src/a.ts")[1] == ["web/.cursor/rules/ts.mdc"]
    assert rules_of(project, "web/other.ts", "src/a.ts")[1] == []


def test_front_matter_that_never_ends_is_said(project):
    write(
        project,
        {
            ".cursor/rules/open.mdc": "---\nalwaysApply: true\n\nUse tabs.\n",
            ".cursor/rules/ruler.mdc": "---\nUse: tabs\n---\nAlways.",
            ".cursor/rules/text.mdc": "---\nUse tabs.\n",
        },
    )
    rows, bound = rules_of(project)
    assert not bound
    assert rows[".cursor/rules/open.mdc"].note == "its front matter does not end with ---, so it is not loaded"
    assert not rows[".cursor/rules/ruler.mdc"].note
    assert not rows[".cursor/rules/text.mdc"].note


def test_front_matter_that_is_no_front_matter_is_text(project):
    (project / "AGENTS.md").write_text("---\nnot front matter for this file\n---\nText")
    files = load_rule_files(Workspace(project))
    assert files.rules[0].text.startswith("---")


def test_a_subdirectory_hears_its_repository_up_to_the_top_the_nearer_later(project):
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    write(
        project,
        {
            "AGENTS.md": "Root",
            "packages/AGENTS.md": "Packages",
            "packages/web/AGENTS.md": "Web",
            "packages/api/AGENTS.md": "Api",
            ".cursor/rules/ts.mdc": "---\nglobs: packages/web/**/*.ts\n---\nStrict.",
            "packages/web/src/AGENTS.md": "Src",
        },
    )
    rows, bound = rules_of(project / "packages" / "web", "src/a.ts")
    assert bound == ["../../AGENTS.md", "../../.cursor/rules/ts.mdc", "../AGENTS.md", "AGENTS.md", "src/AGENTS.md"]
    assert rows["../../AGENTS.md"].reason == "applies to every file"


def test_what_stands_above_needs_its_own_trust_and_no_link_leads_out(project, tmp_path):
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    write(tmp_path, {"secret.md": "Secret", "project/sub/a.txt": "", "project/AGENTS.md": "Root"})
    (project / "CLAUDE.md").symlink_to(tmp_path / "secret.md")
    rows, bound = rules_of(project / "sub", is_trusted_content=lambda path, _: path != "../AGENTS.md")
    assert bound == []
    assert "changed since" in rows["../AGENTS.md"].note
    assert "points outside" in rows["../CLAUDE.md"].note


def test_a_folder_that_is_no_repository_hears_nothing_above_it(project):
    write(project, {"AGENTS.md": "Root", "sub/a.txt": ""})
    assert rules_of(project / "sub")[0] == {}


def test_nothing_of_a_project_is_read_before_trust_but_what_the_user_wrote(project):
    write(project, {"AGENTS.md": "Root"})
    write(get_config_dir(), {"AGENTS.md": "Mine", "rules/py.mdc": "---\nglobs: *.py\n---\nTypes."})
    files = load_rule_files(Workspace(project), None, nearby_paths=["a.py"])
    assert [rule.text for rule in files.rules] == ["Mine", "Types."]


def test_the_users_rules_come_first_and_may_be_links(project, tmp_path):
    write(tmp_path, {"dotfiles/AGENTS.md": "Mine. @~/more.md", "project/AGENTS.md": "Root", "home/more.md": "More."})
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "AGENTS.md").symlink_to(tmp_path / "dotfiles" / "AGENTS.md")
    rows, bound = rules_of(project)
    assert bound == [next(iter(rows)), "AGENTS.md"]
    assert "~/more.md" in next(iter(rows.values())).note


# AGENTS.md and CLAUDE.md


def test_a_link_from_claude_md_to_agents_md_is_told_once(project):
    write(project, {"AGENTS.md": "Root"})
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    rows, bound = rules_of(project)
    assert bound == ["AGENTS.md"]
    assert rows["CLAUDE.md"].reason.startswith("same as AGENTS.md")


@pytest.mark.parametrize("text", ["@AGENTS.md", "# CLAUDE.md\n\n@AGENTS.md\n", "@./AGENTS.md"])
def test_a_claude_md_that_only_imports_agents_md_is_told_once(project, text):
    write(project, {"AGENTS.md": "Root", "CLAUDE.md": text})
    assert rules_of(project)[1] == ["AGENTS.md"]


def test_agents_md_and_claude_md_of_one_folder_are_both_told_agents_md_first(project):
    write(project, {"AGENTS.md": "A", "CLAUDE.md": "C", ".claude/CLAUDE.md": "D", "CLAUDE.local.md": "L"})
    rows, bound = rules_of(project)
    assert bound == ["AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"]
    assert "loaded after AGENTS.md beside it" in rows["CLAUDE.md"].reason


def test_an_override_stands_in_the_place_of_agents_md(project):
    write(project, {"AGENTS.md": "A", "AGENTS.override.md": "Mine"})
    rows, bound = rules_of(project)
    assert bound == ["AGENTS.override.md"]
    assert "replaces AGENTS.md" in rows["AGENTS.override.md"].reason


def test_claude_rules_apply_always_or_to_their_paths(project):
    write(
        project,
        {
            ".claude/rules/a.md": "Always.",
            ".claude/rules/api/b.md": '---\npaths:\n  - "src/**/*.{ts,html}"\n---\nTypes.',
        },
    )
    assert rules_of(project, "src/x/a.html")[1] == [".claude/rules/a.md", ".claude/rules/api/b.md"]
    assert rules_of(project, "a.html")[1] == [".claude/rules/a.md"]


# Imports


def test_imports_come_after_their_file_relative_to_it_and_share_its_condition(project):
    write(
        project,
        {
            "CLAUDE.md": "See @docs/style.md and @docs/style.md.",
            "docs/style.md": "Style. @more/deep.md",
            "docs/more/deep.md": "Deep.",
            ".cursor/rules/svc.mdc": "---\nglobs: src/**\n---\nAs here: @template.ts and @src/own.ts",
            "template.ts": "class @Injectable Service {}",
            "src/own.ts": "own",
        },
    )
    rows, bound = rules_of(project)
    assert bound == ["CLAUDE.md", "docs/style.md", "docs/more/deep.md"]
    assert rows["docs/more/deep.md"].reason == "imported by CLAUDE.md; imported by docs/style.md"
    assert rows["docs/style.md"].reason == "imported by CLAUDE.md"
    assert rules_of(project, "src/own.ts")[1][3:] == [".cursor/rules/svc.mdc", "template.ts", "src/own.ts"]


def test_a_circle_and_a_fifth_hop_are_said(project):
    write(project, {"CLAUDE.md": "Go @a.md", "a.md": "A @b.md", "b.md": "B @a.md"})
    rows, bound = rules_of(project)
    assert bound == ["CLAUDE.md", "a.md", "b.md"]
    assert rows["CLAUDE.md"].note == "@a.md in b.md imports itself in a circle"
    write(project, {"CLAUDE.md": "Go @1.md"} | {f"{n}.md": f"{n} @{n + 1}.md" for n in range(1, 7)})
    rows, bound = rules_of(project)
    assert bound == ["CLAUDE.md", "1.md", "2.md", "3.md", "4.md"]
    assert rows["CLAUDE.md"].note == "@5.md not read: it is more than 4 imports away"


@pytest.mark.parametrize(
    "text", ["`@a.md`", "``x ` @a.md``", "```\n@a.md\n```", "~~~sh\n@a.md\n~~~", "me@a.md", "x/@a.md"]
)
def test_what_stands_in_code_or_within_a_word_is_no_import(project, text):
    write(project, {"CLAUDE.md": f"Words\n\n{text}\n", "a.md": "A"})
    assert rules_of(project)[1] == ["CLAUDE.md"]


@pytest.mark.parametrize("where", ["../outside.md", "~/outside.md", "/etc/passwd", "link.md", "docs/../../outside.md"])
def test_an_import_that_leaves_the_project_is_refused_and_said(project, tmp_path, where):
    write(tmp_path, {"outside.md": "Outside", "project/CLAUDE.md": f"Words @{where}"})
    (project / "link.md").symlink_to(tmp_path / "outside.md")
    rows, bound = rules_of(project)
    assert bound == ["CLAUDE.md"]
    assert "not allowed: it points outside the project" in rows["CLAUDE.md"].note


@pytest.mark.parametrize(
    "word", ["@Injectable", "@types/node", "@/components/ui", "@alice", "@param x", "@.", "@~", "@src/"]
)
def test_a_word_that_names_no_file_is_a_word(project, word):
    write(project, {"CLAUDE.md": f"Use {word} here", "src/a.ts": ""})
    assert rules_of(project)[0]["CLAUDE.md"].note == ""


def test_an_import_that_is_missing_untrusted_or_secret_is_said_and_not_read(project):
    write(project, {"CLAUDE.md": "Go @no.md @.env @new.md", ".env": "KEY=1", "new.md": "New"})
    rows, bound = rules_of(project, is_trusted_content=lambda path, _: path != "new.md")
    assert bound == ["CLAUDE.md"]
    assert rows["CLAUDE.md"].note == (
        "@no.md does not exist; @.env not read: its name suggests secrets; @new.md not read: it has "
        "changed since you trusted this project"
    )


def test_what_the_user_wrote_for_other_agents_comes_before_their_own_and_the_projects(project, tmp_path):
    home = Path.home()
    write(
        home,
        {
            ".copilot/copilot-instructions.md": "Copilot's.",
            ".copilot/instructions/py.instructions.md": '---\napplyTo: "**/*.py"\n---\nIn Python.',
            ".gemini/GEMINI.md": "Gemini's.",
            ".config/opencode/AGENTS.md": "opencode's.",
            ".codex/AGENTS.md": "Never read: there is an override.",
            ".codex/AGENTS.override.md": "Codex's.",
            ".claude/CLAUDE.md": "Claude's. @notes/more.md and @~/far.md",
            ".claude/notes/more.md": "More.",
            "far.md": "Far.",
            ".claude/rules/deep/sql.md": '---\npaths: "**/*.sql"\n---\nIn SQL.',
            ".claude/rules/all.md": "Everywhere.",
        },
    )
    write(get_config_dir(), {"AGENTS.md": "Own."})
    write(project, {"AGENTS.md": "The project's."})
    rows, bound = rules_of(project, "a.py")
    assert bound == [
        "~/.copilot/copilot-instructions.md",
        "~/.gemini/GEMINI.md",
        "~/.config/opencode/AGENTS.md",
        "~/.codex/AGENTS.override.md",
        "~/.claude/CLAUDE.md",
        "~/.claude/notes/more.md",
        "~/far.md",
        "~/.copilot/instructions/py.instructions.md",
        "~/.claude/rules/all.md",
        UserRoot().show("AGENTS.md"),
        "AGENTS.md",
    ]
    assert rows["~/.claude/rules/deep/sql.md"].reason == "no file in use matches **/*.sql"
    assert "~/.codex/AGENTS.md" not in rows


def test_the_users_files_for_other_agents_are_read_without_trust_in_the_project(project):
    write(Path.home(), {".claude/CLAUDE.md": "Mine.", ".claude/rules/a.md": "Mine, too."})
    write(project, {"GEMINI.md": "Theirs.", ".github/copilot-instructions.md": "Theirs, too."})
    assert rules_of(project, is_trusted_content=None)[1] == ["~/.claude/CLAUDE.md", "~/.claude/rules/a.md"]


def test_the_files_of_gemini_and_copilot_bind_before_agents_md_and_equal_ones_once(project):
    write(
        project,
        {
            ".github/copilot-instructions.md": "Copilot.\n",
            "GEMINI.md": "Gemini. @./docs/style.md\n",
            "docs/style.md": "Style.",
            "AGENTS.md": "Be kind.\n",
            "CLAUDE.md": "Be kind.\r\n",
            "sub/GEMINI.md": "Sub.",
        },
    )
    rows, bound = rules_of(project, "sub/a.py")
    assert bound == [".github/copilot-instructions.md", "GEMINI.md", "docs/style.md", "AGENTS.md", "sub/GEMINI.md"]
    assert rows["CLAUDE.md"].reason.startswith("same as AGENTS.md")


@pytest.mark.parametrize(
    ("front", "paths", "kind", "is_bound"),
    [
        ('applyTo: "**/*.ts,**/*.tsx"', ("a.tsx",), "globs", True),
        ('applyTo: "**/*.ts,**/*.tsx"', ("a.py",), "globs", False),
        ('applyTo: "**"', (), "always", True),
        ("description: Of tests", ("a.py",), "described", False),
        ("title: x", ("a.py",), "manual", False),
        ('applyTo: "**"\nexcludeAgent: "coding-agent"', ("a.py",), "manual", False),
        ('applyTo: "**"\nexcludeAgent: "code-review"', ("a.py",), "always", True),
    ],
)
def test_instructions_of_copilot_apply_to_the_files_that_they_name(project, front, paths, kind, is_bound):
    write(project, {".github/instructions/web/ui.instructions.md": f"---\n{front}\n---\nMind this.\n"})
    write(project, {".github/instructions/readme.md": "No instructions."})
    rows, bound = rules_of(project, *paths)
    [row] = rows.values()
    assert (row.kind, bool(bound)) == (kind, is_bound)
