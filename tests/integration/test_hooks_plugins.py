"""Hooks of a project's plug-ins: as much the project's as those in its own files, and trusted as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.permissions.trust import TrustStore
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.agent_case import calls, says
from tests.support.box_tiers import offered
from tests.support.open_session import run_turn, session_in
from tests.support.story import access
from tests.support.trust import trust

pytestmark = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="hooks need a box")

COMMAND = 'bash "${CLAUDE_PLUGIN_ROOT}"/scripts/no.sh'
TABLE: dict[str, Any] = {"PreToolUse": [{"hooks": [{"type": "command", "command": COMMAND}]}]}
STEPS = [calls(("write", {"file_path": "b.txt", "contents": "x\n"})), says("Done.")]
PLUGIN = Path(".claude/plugins/guard")
FILE = f"{PLUGIN}/hooks/hooks.json"
MANIFEST = f"{PLUGIN}/.claude-plugin/plugin.json"


def build(root: Path, *, inline: bool = False) -> Path:
    for name in (".claude-plugin", "hooks", "scripts"):
        (root / PLUGIN / name).mkdir(parents=True)
    manifest = {"name": "guard", **({"hooks": TABLE} if inline else {})}
    (root / MANIFEST).write_text(json.dumps(manifest))
    if not inline:
        (root / FILE).write_text(json.dumps({"hooks": TABLE}))
    (root / PLUGIN / "scripts" / "no.sh").write_text("echo never >&2; exit 2\n")
    return root


def record(events: list[ev.AnyEvent]) -> list[tuple[str, str]]:
    return [(event.event, event.outcome) for event in events if isinstance(event, ev.HookRan)]


@pytest.mark.parametrize("inline", [False, True])
async def test_i1_the_question_about_a_project_shows_the_hooks_of_its_plug_ins(tmp_path, inline):
    root = build(tmp_path / "project", inline=inline)
    async with session_in(root, access(STEPS)) as (engine, session):
        asked = engine.state(session).trust
        assert asked is not None
        assert asked.hooks == (f"preToolUse: {COMMAND}",)
        assert record(await run_turn(engine, session)) == []
        assert isinstance(await engine.submit(cmd.TrustSet(session=session, trusted=True)), cmd.Ack)
    async with session_in(root, access(STEPS)) as (engine, session):
        assert engine.state(session).trust_state == "trusted"
        assert record(await run_turn(engine, session)) == [("preToolUse", "denied")]


@pytest.mark.parametrize("inline", [False, True])
async def test_n3_a_script_of_a_plug_in_that_has_changed_waits_for_another_yes(tmp_path, inline):
    root = build(tmp_path / "project", inline=inline)
    trust(root)
    async with session_in(root, access([*STEPS, *STEPS])) as (engine, session):
        assert record(await run_turn(engine, session)) == [("preToolUse", "denied")]
        (root / PLUGIN / "scripts" / "no.sh").write_text("exit 0\n")
        assert record(await run_turn(engine, session)) == []
        asked = engine.state(session).trust
        assert asked is not None
        assert asked.hooks == (f"~ preToolUse: {COMMAND}",)
        assert [path.partition("#")[0] for path in asked.changed] == [MANIFEST if inline else FILE]


async def test_n3_a_hook_that_a_plug_in_has_got_meanwhile_is_shown_and_does_not_run(tmp_path):
    root = build(tmp_path / "project")
    trust(root)
    more = {**TABLE, "Stop": [{"hooks": [{"type": "command", "command": "exit 3"}]}]}
    (root / FILE).write_text(json.dumps({"hooks": more}))
    async with session_in(root, access([*STEPS, *STEPS])) as (engine, session):
        asked = engine.state(session).trust
        assert asked is not None
        assert (asked.changed, asked.hooks) == ((FILE,), ("+ stop: exit 3",))
        assert record(await run_turn(engine, session)) == []
        assert isinstance(await engine.submit(cmd.TrustSet(session=session, trusted=True)), cmd.Ack)
        assert record(await run_turn(engine, session)) == [("preToolUse", "denied"), ("stop", "failed")]
    assert TrustStore(root).load_hooks()[FILE] == [f"preToolUse: {COMMAND}", "stop: exit 3"]


async def test_hooks_of_a_plug_in_of_cursors_are_run_in_its_folder_and_told_the_project(tmp_path):
    root = build(tmp_path / "project")
    table = {"version": 1, "hooks": {"preToolUse": [{"command": "./scripts/no.sh"}]}}
    (root / FILE).write_text(json.dumps(table))
    script = root / PLUGIN / "scripts" / "no.sh"
    script.write_text('#!/bin/sh\necho "$(basename "$CURSOR_PLUGIN_ROOT") in $CURSOR_PROJECT_DIR" >&2; exit 2\n')
    script.chmod(0o755)
    trust(root)
    async with session_in(root, access(STEPS)) as (engine, session):
        events = await run_turn(engine, session)
    [ran] = [event for event in events if isinstance(event, ev.HookRan)]
    assert (ran.outcome, ran.message) == ("denied", f"guard in {root}")


async def test_an_argument_of_a_plug_ins_hook_may_name_its_folder(tmp_path):
    root = build(tmp_path / "project")
    entry = {"type": "command", "command": "bash", "args": ["${CLAUDE_PLUGIN_ROOT}/scripts/no.sh"]}
    (root / FILE).write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [entry]}]}}))
    trust(root)
    async with session_in(root, access(STEPS)) as (engine, session):
        assert record(await run_turn(engine, session)) == [("preToolUse", "denied")]
