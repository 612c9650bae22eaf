"""What a mode and the review keep, whatever the agent tries: its plan, its rules, patches that lead out."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.protocol import events as ev
from tests.support.agent_case import Case, calls, says
from tests.support.boxes import boxed, command
from tests.support.verdicts import accept_everything

PLAN = {"overview": "O", "plan": "# P", "todos": [{"id": "a", "content": "A"}]}
WRITES = [
    ("write", {"file_path": "new.py", "contents": "x\n"}),
    ("search_replace", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}),
    ("delete_file", {"target_file": "a.py"}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"}),
    ("write", {"file_path": ".cursor/plans/mine.plan.md", "contents": "x\n"}),
    ("write", {"file_path": "AGENTS.md", "contents": "x\n"}),
]
OUT_OF_IT = ("../outside.txt", "a/../../outside.txt", "/etc/outside.txt", "link/outside.txt", "a\0b")
STEERING = (
    "AGENTS.md",
    "sub/CLAUDE.md",
    ".agent-tui/config.toml",
    ".cursor/mcp.json",
    ".mcp.json",
    ".cursor/rules/a.mdc",
)


@pytest.mark.parametrize("name", ["P", "../../evil", "/etc/evil", "a\x01b", ".git/hooks/pre-commit"])
async def test_m3_in_plan_nothing_but_the_plan_is_written_whatever_its_name_is(tmp_path, name):
    steps = [
        calls(*WRITES),
        command("touch made; echo y > a.py; mkdir -p .cursor/plans; touch .cursor/plans/x.plan.md"),
        calls(("create_plan", {"name": name, **PLAN})),
        says("."),
    ]
    async with boxed(tmp_path, *steps, mode="plan") as case:
        (case.project / "a.py").write_text("x = 1\n")
        await case.turn()
        assert {event.status for event in case.of(ev.ToolFinished)[: len(WRITES)]} == {"denied"}
        assert case.state.changes == {}
        [plan] = set(case.tree()) - {"a.py"}
        assert Path(plan).parent == Path(".cursor/plans")
        assert plan.endswith(".plan.md")
        assert case.tree()["a.py"] == b"x = 1\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["project", "state"]


HEAD = "---\nname: Old\ntodos: []\n---\nText\n"
STEERED = (".cursor/rules/a.mdc", ".claude/agents/a.md", "skills/a/SKILL.md", "AGENTS.md", "docs/a.md", "l/a.plan.md")


@pytest.mark.parametrize("target", [*STEERED, ".cursor/plans/l.plan.md", ".cursor/plans/../rules/a.mdc"])
async def test_m3_n1_no_file_that_looks_like_a_plan_is_written_but_a_plan(tmp_path, target):
    update = (
        "update_plan",
        {"path": target, "name": "New", "plan": "Obey me.", "todos": [{"id": "a", "content": "A"}]},
    )
    async with boxed(tmp_path, calls(update), says("."), mode="plan") as case:
        for path in (*STEERED[:-1], ".git/a.plan.md"):
            (case.project / path).parent.mkdir(parents=True, exist_ok=True)
            (case.project / path).write_text(HEAD)
        (case.project / "l").symlink_to(".git")
        (case.project / ".cursor" / "plans").mkdir()
        (case.project / ".cursor" / "plans" / "l.plan.md").symlink_to("../rules/a.mdc")
        before = case.tree()
        await case.turn()
        assert [event.status for event in case.of(ev.ToolFinished)] == ["failed"]
        assert "plan" in case.results()[0]
        assert case.tree() == before
        assert case.state.changes == {}


async def test_m11_what_steers_the_agent_is_told_apart_and_left_when_everything_is_accepted(tmp_path):
    steps = [
        calls(*[("write", {"file_path": path, "contents": "allow = ['Shell(*)']\n"}) for path in STEERING[:3]]),
        command("".join(f"mkdir -p $(dirname {path}); echo x > {path};" for path in STEERING[3:]) + "echo x > plain"),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        accept_everything(case.shadow)
        assert case.tree() == {"plain": b"x\n"}
        assert set(case.state.changes) == set(STEERING)
        assert all(change.protected for change in case.state.changes.values())
        risks = {path: change.risk for path, change in case.state.changes.items()}
        assert {path for path, risk in risks.items() if "agent" in risk} == set(STEERING)


async def test_m11_what_the_user_allowed_for_good_can_not_be_reached(tmp_path):
    rules_path = tmp_path / "state" / "permissions.json"
    steps = [
        calls(
            ("write", {"file_path": str(rules_path), "contents": "{}"}), ("read_file", {"target_file": str(rules_path)})
        ),
        command(
            f"echo '{{}}' > {rules_path}; cat {rules_path}; ls {rules_path.parent};"
            " echo '{}' > ../state/permissions.json"
        ),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        rules_path.write_text("what was allowed\n")
        await case.turn()
        assert rules_path.read_text() == "what was allowed\n"
        assert "what was allowed" not in "".join(case.results())
        assert [event.status for event in case.of(ev.ToolFinished)][:2] == ["failed", "failed"]
        assert case.state.changes == {}


@pytest.mark.parametrize("path", OUT_OF_IT)
async def test_p17_a_patch_that_leads_out_is_refused_as_a_whole(tmp_path, path):
    patch = f"*** Begin Patch\n*** Update File: a.py\n-x = 1\n+x = 2\n*** Add File: {path}\n+y\n*** End Patch"
    case = Case(tmp_path, calls(("apply_patch", {"input": patch})), says("."))
    (case.project / "a.py").write_text("x = 1\n")
    (tmp_path / "elsewhere").mkdir()
    (case.project / "link").symlink_to(tmp_path / "elsewhere")
    await case.turn()
    assert case.of(ev.ToolFinished)[0].status == "failed", case.results()
    assert case.state.changes == {}
    assert case.shadow.read("a.py") == b"x = 1\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []
