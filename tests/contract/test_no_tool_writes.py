"""What a capability can reach: nothing beyond its Access hangs on it, and it dies with its call."""

from __future__ import annotations

import inspect

import pytest

from core.agent.base.call_lease import CallLease
from core.agent.gate.capabilities import CommandRunner, UserPrompter, build_capabilities
from core.agent.gate.file_capabilities import FileEditor
from core.agent.gate.web_visitor import PageVisitor
from core.engine.session.server_access import ServerCaller
from core.engine.subagents.task_agents import TaskSpawner
from core.errors import ToolFailed
from core.mcp.session_servers import SessionServers
from core.modes import Access
from core.protocol.documents import Plan
from core.protocol.review import Origin
from core.tools import base
from core.tools.builtin.debugging import Debugger
from core.tools.external import ExternalCaller
from core.tools.toolset import Toolset
from tests.support.agent_case import Case

TOOLS = Toolset()

EFFECTS = {
    "write", "write_atomic", "delete", "edit", "remove", "resolve", "undo", "emit", "set_todos", "create_plan",
    "create", "run_command", "unlink", "replace", "approve", "make_directories",
}  # fmt: skip
PROTOCOLS = {
    Access.READ: base.Reader,
    Access.ASK: base.Asker,
    Access.TODO: base.TodoBoard,
    Access.PLAN: base.Planner,
    Access.PROPOSE: base.Editor,
    Access.EXEC: base.Runner,
    Access.JOB: base.JobWatcher,
    Access.PROBE: Debugger,
}
OUTWARD = {
    Access.EXTERNAL: (ExternalCaller, ServerCaller),
    Access.NET: (base.WebVisitor, PageVisitor),
    Access.SPAWN: (base.Spawner, TaskSpawner),
}  # opened by the session, never by the gate itself
DATA = (str, bytes, int, float, bool, type(None), dict, tuple, list)


def made(case: Case, access: Access, lease: CallLease | None = None) -> object:
    approved = case.session.permissions.build_approval("true")
    return build_capabilities(case.session).build(access, Origin(call="call_1"), approved, lease or CallLease())


def reachable(thing: object, depth: int = 4, done: set[int] | None = None) -> set[str]:
    """Names of everything callable that attributes lead to, also through the objects that methods are bound to."""
    done = done if done is not None else set()
    if depth == 0 or id(thing) in done or isinstance(thing, DATA) or inspect.isclass(thing) or inspect.ismodule(thing):
        return set()
    done.add(id(thing))
    names: set[str] = set()
    for name in dir(thing):
        if name.startswith("__") and name != "__self__":
            continue
        try:
            value = getattr(thing, name)
        except Exception:
            continue
        if callable(value):
            names.add(name)
        names |= reachable(value, depth - 1, done)
    return names


def methods(protocol: type) -> set[str]:
    return {name for name in dir(protocol) if not name.startswith("_")}


@pytest.mark.parametrize("access", list(PROTOCOLS))
def test_a_capability_offers_what_its_access_says(tmp_path, access):
    assert methods(PROTOCOLS[access]) <= set(dir(made(Case(tmp_path), access)))


def test_m1_nothing_that_writes_can_be_reached_from_what_reads(tmp_path):
    assert reachable(made(Case(tmp_path), Access.READ)) & EFFECTS == set()


def test_the_search_for_effects_does_find_them(tmp_path):
    case = Case(tmp_path)
    assert reachable(made(case, Access.PROPOSE)) & EFFECTS >= {"write", "delete"}
    assert "set_todos" in reachable(made(case, Access.TODO))


@pytest.mark.parametrize("access", [Access.NET, Access.SPAWN, Access.EXTERNAL])
def test_an_access_that_leads_out_has_no_capability_unless_the_session_opens_it(tmp_path, access):
    with pytest.raises(ToolFailed):
        made(Case(tmp_path), access)


def test_every_tool_declares_one_access_that_has_a_capability():
    assert {tool.access for tool in TOOLS.values()} <= {*PROTOCOLS, *OUTWARD}


@pytest.mark.parametrize("access", list(OUTWARD))
def test_a_capability_that_leads_out_offers_what_its_access_says(access):
    protocol, opened = OUTWARD[access]
    assert methods(protocol) <= set(dir(opened))


async def test_m14_a_call_of_a_servers_tool_dies_with_its_lease(tmp_path):
    case, lease = Case(tmp_path), CallLease()
    host = case.session.terminal.host

    async def refuse(*_: object) -> None:
        raise AssertionError("nobody is to be asked")

    servers = SessionServers(host, refuse, lambda: None, lambda: True)
    caller = ServerCaller(servers, host, Origin(call="call_1"), lease, case.session.user)
    assert await caller.find_tools("x") == ()
    lease.end()
    with pytest.raises(ToolFailed):
        await caller.find_tools("x")
    with pytest.raises(ToolFailed, match="This call is over"):
        await caller.call("mcp__a__b", {})


async def test_m14_a_capability_dies_with_its_call(tmp_path):
    case, lease = Case(tmp_path), CallLease()
    editor, board, desk, runner = (
        made(case, access, lease) for access in (Access.PROPOSE, Access.PLAN, Access.ASK, Access.EXEC)
    )
    lease.end()
    count = len(case.events)
    assert isinstance(editor, FileEditor)
    assert isinstance(desk, UserPrompter)
    assert isinstance(runner, CommandRunner)
    with pytest.raises(ToolFailed):
        editor.write("a.py", b"x")
    with pytest.raises(ToolFailed):
        editor.delete("a.py")
    with pytest.raises(ToolFailed):
        await board.set_todos(())
    with pytest.raises(ToolFailed):
        board.create_plan(Plan(path="", name="P"))
    with pytest.raises(ToolFailed):
        await desk.request_mode("agent", "")
    with pytest.raises(ToolFailed):
        await runner.run_command("true", time_limit=1)
    assert len(case.events) == count


async def test_m5_only_the_approved_command_runs_and_only_once(tmp_path):
    case = Case(tmp_path)
    other, runner = made(case, Access.EXEC), made(case, Access.EXEC)
    assert isinstance(other, CommandRunner)
    assert isinstance(runner, CommandRunner)
    for command in ("true ", "true"):  # the answer is used up by an attempt to run something else
        with pytest.raises(ToolFailed):
            await other.run_command(command, time_limit=1)
    result = await runner.run_command("true", time_limit=5)
    assert result.exit_code == 0
    with pytest.raises(ToolFailed):
        await runner.run_command("true", time_limit=1)
