"""The terminal and the Python of models without function calls, in a real box and without one."""

from __future__ import annotations

import re
import sys

import pytest

from core.config.settings import ModelSettings, Settings
from core.protocol import events as ev
from core.protocol.documents import TerminalCommandDocument
from core.sandbox.box import Box, Tier
from core.sandbox.tiers.namespaces import NamespaceBox
from tests.support.agent_case import Case, says
from tests.support.history import faults

TAGS = Settings(models={"directed/m": ModelSettings(dialect="tags")})


class Held:
    """The box of namespaces, as a session comes to it."""

    tier = Tier.NAMESPACES

    def __init__(self) -> None:
        self.box = NamespaceBox()

    async def find(self) -> Box | None:
        return self.box

    def describe(self) -> str:
        return "a box"


@pytest.fixture
async def held():
    holder = Held()
    yield holder
    await holder.box.close()


def bash(text: str):
    return says(f"<execute_bash>{text}</execute_bash>")


def python(code: str):
    return says(f"<execute_ipython>\n{code}\n</execute_ipython>")


async def turn_of(tmp_path, *steps, box=None, mode: str = "agent") -> Case:
    case = Case(tmp_path, *steps, settings=TAGS, mode=mode, box=box)
    case.answer_approvals("allow_once")
    finished = await case.turn()
    await case.session.terminal.close()
    assert finished.reason == "done"
    assert faults(case.messages) == []
    return case


async def test_a_command_that_waits_for_input_goes_on_and_gets_it(tmp_path, held, monkeypatch):
    monkeypatch.setattr("core.dialects.tags.COMMAND_WAIT", 1)
    asks = "echo 'name?'; read name; echo hello $name; exit 4"
    case = await turn_of(tmp_path, bash(asks), bash(""), bash("Ada"), bash("echo free again"), says("."), box=held)
    first, polled, answered, after = case.results()
    assert "name?" in first
    assert first.endswith("[The command is still running. exit code -1]")
    assert polled.endswith("[The command is still running. exit code -1]")
    assert "hello Ada" in answered
    assert answered.endswith("[Command finished. exit code 4]")
    assert after == "OBSERVATION:\nfree again\n[Command finished. exit code 0]"


@pytest.mark.parametrize("contained", [True, False])
async def test_the_shell_stays_where_a_command_left_it(tmp_path, held, contained):
    move = bash("mkdir sub && cd sub && export WORD=kept")
    case = await turn_of(tmp_path, move, bash("pwd; echo $WORD"), says("."), box=held if contained else None)
    assert "/project/sub\nkept\n" in case.results()[1]


async def test_a_command_that_goes_on_can_be_interrupted(tmp_path, held, monkeypatch):
    monkeypatch.setattr("core.dialects.tags.COMMAND_WAIT", 1)
    case = await turn_of(tmp_path, bash("sleep 600"), bash("ctrl+c"), bash("echo free again"), says("."), box=held)
    assert case.results()[0].endswith("exit code -1]")
    assert "exit code 130" in case.results()[1]
    assert "free again" in case.results()[2]


async def test_what_is_meant_for_a_command_is_never_run_as_one(tmp_path, held, monkeypatch):
    monkeypatch.setattr("core.dialects.tags.COMMAND_WAIT", 1)
    case = await turn_of(tmp_path, bash("sleep 2; echo over"), bash("touch made"), bash(""), says("."), box=held)
    assert "over" in "".join(case.results()[1:])
    assert "made" not in case.state.changes
    assert case.of(ev.JobStarted)[0].command == "sleep 2; echo over"


@pytest.mark.parametrize("contained", [True, False])
async def test_python_keeps_its_variables_from_block_to_block(tmp_path, held, monkeypatch, contained):
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    case = await turn_of(
        tmp_path, python("x = 20"), python("x * 2 + 2"), python("1 / 0"), python("open('made.txt', 'w').write('hi')"),
        says("."), box=held if contained else None,
    )  # fmt: skip
    assert [re.findall(r"exit code (\S+)\]", result)[-1] for result in case.results()] == ["0", "0", "1", "0"]
    assert "42" in case.results()[1]
    assert "ZeroDivisionError" in case.results()[2]
    assert (case.project / "made.txt").exists() is not contained
    assert ("made.txt" in case.state.changes) is contained
    documents = [
        event.document for event in case.of(ev.DocumentFinished) if isinstance(event.document, TerminalCommandDocument)
    ]
    assert [document.metadata.command for document in documents][:2] == ["x = 20", "x * 2 + 2"]


async def test_m1_python_that_only_looks_leaves_nothing_behind(tmp_path, held):
    code = python("open('made.txt', 'w').write('hi'); print(open('made.txt').read())")
    case = await turn_of(tmp_path, code, says("."), box=held, mode="ask")
    assert "hi" in case.results()[0]
    assert case.state.changes == {}
    assert case.tree() == {}


async def test_m1_python_is_refused_where_nothing_holds_what_it_does(tmp_path):
    case = await turn_of(tmp_path, python("open('made.txt', 'w')"), says("."), mode="plan")
    assert "plan mode does not allow run_python" in case.results()[0]
    assert case.tree() == {}
