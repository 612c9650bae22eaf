"""Skills as they lie in public collections, and what is wrong with some."""

from __future__ import annotations

import pytest

from core.extensions.extension_files import InvalidExtension
from core.extensions.skills import list_skill_files, load_skills, read_skill_file

PDF = """---
name: pdf
description: Use when: a form has to be filled, or a PDF to be read.
license: Proprietary. LICENSE.txt has complete terms
allowed-tools: Bash(python:*) Read
---

# PDF

See [reference](reference.md).
"""


def skill(*lines, body="Do it."):
    return "\n".join(("---", *lines, "---", body, ""))


def read_one(places, *lines, name="a", body="Do it."):
    places.write({f".claude/skills/{name}/SKILL.md": skill(*lines, body=body)})
    skill_set = load_skills(places.folders())
    assert skill_set.skipped == ()
    return skill_set.skills[0]


def test_a_skill_of_the_standard_is_read_with_its_files(places):
    places.write(
        {
            ".agents/skills/pdf/SKILL.md": PDF,
            ".agents/skills/pdf/reference.md": "More.",
            ".agents/skills/pdf/scripts/fill.py": "print()",
            ".agents/skills/pdf/inner/SKILL.md": PDF,
        }
    )
    (pdf,) = load_skills(places.folders()).skills
    assert (pdf.name, pdf.path, pdf.source) == ("pdf", ".agents/skills/pdf/SKILL.md", ".agents")
    assert pdf.description == "Use when: a form has to be filled, or a PDF to be read."
    assert pdf.problems == ()
    assert pdf.allowed_tools == ("Bash(python:*) Read",)
    assert list_skill_files(pdf) == ["inner/SKILL.md", "reference.md", "scripts/fill.py"]
    assert read_skill_file(pdf, "./scripts/../reference.md") == b"More."


def test_keys_of_claude_and_cursor_are_known_and_what_is_not_used_is_told(places):
    loaded_skill = read_one(
        places,
        *("name: a", "description: d", "when_to_use: always", "paths: src/**, *.sql", "disable-model-invocation: true"),
        *("user-invocable: false", "arguments: issue branch", "argument-hint: [issue]", "context: fork", "modle: x"),
    )
    assert (loaded_skill.when_to_use, loaded_skill.globs, loaded_skill.arguments) == (
        "always",
        ("src/**", "*.sql"),
        ("issue", "branch"),
    )
    assert (loaded_skill.is_manual, loaded_skill.is_user_invocable) == (True, False)
    assert loaded_skill.problems == ("unknown key 'modle': did you mean 'model'?", "`context` is not used")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# No front matter", "it has no description, so the agent can't tell when to use it"),
        (skill("name: a"), "it has no description, so the agent can't tell when to use it"),
        (skill("name: ../x", "description: d"), ""),
        (skill("name: a:b", "description: d"), "'a:b' is not a valid name"),
    ],
)
def test_a_folder_that_makes_no_skill_is_told(places, text, reason):
    places.write({".claude/skills/a/SKILL.md": text})
    skill_set = load_skills(places.folders())
    if reason:
        assert [skipped_file.reason[: len(reason)] for skipped_file in skill_set.skipped] == [reason]
    else:
        assert skill_set.skills[0].name == "..-x"


def test_a_name_that_is_not_the_folders_is_told_and_counts(places):
    loaded_skill = read_one(places, "name: My Skill", "description: d", name="mine")
    assert loaded_skill.name == "My-Skill"
    assert len(loaded_skill.problems) == 2


@pytest.mark.parametrize("name", ["../b/SKILL.md", "/etc/passwd", "~/x", "x/../../b/SKILL.md", ".env", "", "missing"])
def test_no_file_is_read_from_beside_a_skill(places, name):
    places.write({".claude/skills/b/SKILL.md": skill("description: d"), ".claude/skills/a/.env": "KEY=1"})
    with pytest.raises(InvalidExtension):
        read_skill_file(read_one(places, "description: d"), name)


def test_no_link_leads_out_of_a_users_skill_and_a_link_to_a_skill_is_one(places, tmp_path):
    places.write({"real/SKILL.md": skill("name: a", "description: d"), "real/in.md": "In.", "out.md": "Out."}, tmp_path)
    (tmp_path / "real/link.md").symlink_to(tmp_path / "out.md")
    (places.home / ".claude/skills").mkdir(parents=True)
    (places.home / ".claude/skills/a").symlink_to(tmp_path / "real")
    (loaded_skill,) = load_skills(places.folders()).skills
    assert read_skill_file(loaded_skill, "in.md") == b"In."
    assert loaded_skill.directory == tmp_path / "real"
    with pytest.raises(InvalidExtension, match="is outside"):
        read_skill_file(loaded_skill, "link.md")


def test_a_link_that_leads_out_of_the_project_is_no_file_of_a_skill_and_the_reason_is_no_sentence(places, tmp_path):
    (tmp_path / "out.md").write_text("Out.")
    loaded_skill = read_one(places, "description: d")
    (places.project / loaded_skill.folder_path / "link.md").symlink_to(tmp_path / "out.md")
    with pytest.raises(InvalidExtension, match=r"symbolic link$"):
        read_skill_file(loaded_skill, "link.md")
