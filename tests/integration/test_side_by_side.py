"""Commands of one step that run at the same time, each over a layer of its own; and those that wait for their turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage
from core.user_dirs import get_config_dir
from tests.support.agent_case import Step, calls, says
from tests.support.box_tiers import offered
from tests.support.subagents import converse, open_build, project_at

pytestmark = pytest.mark.skipif(
    not any(tier.can_run_unasked for tier in offered()), reason="commands need a strong box"
)
HANGS = "echo $1\nsleep 600\n"


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text('[commands]\npolicy = "auto"\nchecks = ["sh meet.sh"]\n')
    return root


def run(*commands: str) -> Step:
    return calls(*(("run_terminal_cmd", {"command": command}) for command in commands))


async def answers(root: Path, *steps: Step) -> list[str]:
    async with open_build(root, {"it": [*steps, says("Done.")]}) as (engine, team):
        await converse(engine, team.session, "[part it]")
        return [message.content for message in engine.state(team.session).messages if isinstance(message, ToolMessage)]


async def test_checks_of_one_step_run_at_the_same_time(project):
    (project / "meet.sh").write_text(HANGS)
    heard: set[str] = set()

    def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
        if not isinstance(event, ev.ToolOutput):
            return None
        before = len(heard)
        heard.update(event.text.split())
        return cmd.TurnInterrupt(session=team.session) if before < 2 <= len(heard) else None

    steps = [run("sh meet.sh one", "sh meet.sh two"), says("never")]
    async with open_build(project, {"it": steps}) as (engine, team):
        seen = await converse(engine, team.session, "[part it]", on=on)
        ends = [end for end in seen if isinstance(end, ev.ToolFinished)]
        assert heard == {"one", "two"}, "the second spoke while the first went on"
        assert [end.status for end in ends] == ["cancelled", "cancelled"]


async def test_answers_keep_the_order_of_the_calls(project):
    first, second, third = await answers(project, run("cat calc.py", "ls .gitignore", "wc -l calc.py"))
    assert "RATE" in first
    assert ".gitignore" in second
    assert "calc.py" in third


async def test_a_command_that_makes_something_is_not_overtaken(project):
    first_output, output = await answers(project, run("mkdir out && echo made > out/a.txt", "cat out/a.txt"))
    assert "made" in output, first_output
    output, _, later = await answers(project, run("ls", "touch new.txt", "ls new.txt"))
    assert "new.txt" not in output
    assert "new.txt" in later
