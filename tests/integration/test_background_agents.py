"""Background agents through the real program: workers as processes, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchfiles import awatch

from core.background.control import WorkerLock, delete_agent, pull_agent, send_message, start_agent, stop_agent
from core.background.locations import get_agent_dir, make_agents_dir, open_store
from core.background.records import ENDED, AgentLimits, AgentRequest, BackgroundAgent
from core.background.sqlite_store import SqliteStore
from core.background.store import AgentStore
from core.engine import Engine
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.options import EngineOptions
from core.worker import push_agent
from tests.support import wires
from tests.support.background import EDIT, all_ended, command, opened, play, read_changes, wait_for, working
from tests.support.postgres import Server
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Step

PROGRAM = (sys.executable, str(Path(__file__).parents[2] / "agent_tui.py"))


@pytest.fixture
def repository(tmp_path: Path) -> str:
    root = tmp_path / "origin"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    return f"file://{root}"


def show_commit(repository: Path, branch: str) -> str:
    words = ["git", "log", "-1", "--format=%s", "-p", branch]
    return subprocess.run(words, cwd=repository, check=True, capture_output=True, text=True).stdout


async def test_an_agent_of_this_machine_is_run_by_a_process_of_its_own_and_pulled_as_hunks(tmp_path, project):
    model = play(tmp_path, (EDIT, "Done."))
    async with opened(open_store()) as store:
        request = AgentRequest(task_description="Change it", workspace_path=str(project), model=model)
        agent = await start_agent(store, request, PROGRAM)
        [ended] = await wait_for(store, all_ended)
        assert (ended.state, ended.message, ended.pending, ended.attempt) == ("done", "Done.", 1, 1)
        assert (project / "a.txt").read_text() == "one\n"
        assert ended.worker.endswith(tuple("0123456789"))
        session = await pull_agent(store, ended, project)
        changes = await read_changes(project, session)
        assert list(changes) == ["a.txt"]
        stored_agent = await store.find(agent.id)
        assert stored_agent is not None
        assert stored_agent.pulled


@pytest.mark.parametrize("is_clone", [False, True], ids=["in place", "clone"])
async def test_a_commit_of_a_pulled_agent_can_be_accepted(tmp_path, repository, is_clone):
    root = Path(repository.removeprefix("file://"))
    model = play(tmp_path, (command("echo two > a.txt; git commit -qam two"), "Done."))
    where = {"repository_url": repository} if is_clone else {"workspace_path": str(root)}
    async with opened(open_store()) as store:
        await start_agent(store, AgentRequest(task_description="Change it", model=model, **where), PROGRAM)
        [ended] = await wait_for(store, all_ended)
        session = await pull_agent(store, ended, root)
        await delete_agent(store, ended)
    engine = Engine(root, options=EngineOptions(watch=False))
    try:
        assert isinstance(await engine.submit(cmd.SessionResume(session=session)), cmd.Ack)
        await engine.wait_idle(session)
        for resolve in (
            cmd.HunkResolve(session=session, path="a.txt", verdict="accept"),
            cmd.BulkResolve(session=session, root=".git", verdict="accept", confirmed=True),
        ):
            reply = await engine.submit(resolve)
            assert isinstance(reply, cmd.Ack), reply
            await engine.wait_idle(session)
    finally:
        await engine.close()
    assert "+two" in show_commit(root, "HEAD")


async def test_a_pulled_change_whose_file_moved_on_is_a_conflict(tmp_path, project):
    async with opened(SqliteStore(make_agents_dir())) as store, working(store):
        model = play(tmp_path, (EDIT, "Done."))
        request = AgentRequest(task_description="Change it", workspace_path=str(project), model=model)
        await start_agent(store, request, ())
        [ended] = await wait_for(store, all_ended)
        (project / "a.txt").write_text("another one\n")
        changes = await read_changes(project, await pull_agent(store, ended, project))
        assert changes["a.txt"].conflict
        with pytest.raises(Exception, match="already"):
            await pull_agent(store, ended, project)


async def test_a_cost_by_the_price_of_a_similar_model_is_shown_as_an_estimate(tmp_path, project, monkeypatch):
    async with provider_server([Step(text="Done.", usage={"prompt": 1_000, "completion": 10})]) as server:
        wires.configure(monkeypatch, server)
        async with opened(SqliteStore(make_agents_dir())) as store, working(store):
            model = "openai/gpt-6.1-nova"
            request = AgentRequest(task_description="Look", workspace_path=str(project), model=model)
            agent = await start_agent(store, request, ())
            [ended] = await wait_for(store, all_ended)
    assert (ended.state, ended.cost, ended.estimated) == ("done", pytest.approx(1_000 * 2e-6 + 10 * 10e-6), True)
    words = [*PROGRAM, "agents", "show", agent.id]
    shown = await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, text=True)
    assert "~$0.0021" in shown.stdout


async def test_a_message_is_the_next_prompt_of_an_agent_that_ended_and_stop_ends_one_that_runs(tmp_path, project):
    async with opened(SqliteStore(make_agents_dir())) as store, working(store):
        model = play(tmp_path, (EDIT, "Done."), (command("sleep 60"), "More."))
        request = AgentRequest(task_description="Change it", workspace_path=str(project), model=model)
        agent = await start_agent(store, request, ())
        await wait_for(store, all_ended)
        await send_message(store, agent, "And now run it", ())
        await wait_for(store, lambda agents: agents[0].state == "running" and agents[0].attempt == 2)
        await stop_agent(store, agent)
        [ended] = await wait_for(store, all_ended)
        assert ended.state == "stopped"
        await delete_agent(store, ended)
        assert await store.list_agents() == []
        assert not get_agent_dir(agent.id).exists()


async def test_what_an_agent_asks_waits_for_an_answer_by_the_store_and_gives_up_after_its_time(tmp_path, project):
    from core.user_dirs import get_config_dir

    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text('[commands]\npolicy = "confirm"\n')
    async with opened(SqliteStore(make_agents_dir())) as store, working(store):
        model = play(tmp_path, (command("echo hi > b.txt"), "Done."))
        request = AgentRequest(task_description="Run it", workspace_path=str(project), model=model)
        agent = await start_agent(store, request, ())
        [waiting] = await wait_for(store, lambda agents: agents[0].state == "waiting")
        assert waiting.waits_for == "echo hi > b.txt"
        engine_log = next(get_agent_dir(agent.id).rglob("log.jsonl")).read_text()
        asked = engine_log.split('"type":"approval.requested","id":"')[1].split('"')[0]
        await store.post(agent.id, {"type": "approval.answer", "session": "", "id": asked, "decision": "allow_once"})
        [ended] = await wait_for(store, all_ended)
        assert (ended.state, ended.pending) == ("done", 1)
        limits = AgentLimits(answer_seconds=1)
        request = AgentRequest(task_description="Run it", workspace_path=str(project), model=model, limits=limits)
        await start_agent(store, request, ())
        stored_agents = await wait_for(store, all_ended)
        assert stored_agents[0].state == "stopped"


async def test_an_agent_whose_worker_was_killed_is_taken_up_from_its_log(tmp_path, project):
    model = play(tmp_path, (EDIT, command("sleep 60")), ("Went on.",))
    async with opened(SqliteStore(make_agents_dir())) as store:
        request = AgentRequest(task_description="Change it", workspace_path=str(project), model=model)
        agent = await start_agent(store, request, PROGRAM)

        def is_in_command() -> bool:
            logs = list(get_agent_dir(agent.id).rglob("log.jsonl"))
            return bool(logs) and b"sleep 60" in logs[0].read_bytes() and b"tool.requested" in logs[0].read_bytes()

        async for _ in awatch(make_agents_dir(), step=50, rust_timeout=500, yield_on_timeout=True):
            if is_in_command():
                break
        [running] = await store.list_agents()
        os.kill(int(running.worker.rpartition(":")[2]), signal.SIGKILL)
        await start_agent(store, request, PROGRAM)
        stored_agents = await wait_for(store, lambda agents: agents[-1].state in ENDED)
        assert (stored_agents[-1].state, stored_agents[-1].attempt, stored_agents[-1].pending) == ("done", 2, 1)
        await stop_agent(store, stored_agents[0])
        await wait_for(store, all_ended)


async def test_an_agent_that_is_queued_while_the_last_worker_goes_finds_a_new_one(tmp_path, project):
    going = WorkerLock()
    async with opened(open_store()) as store:
        request = AgentRequest(
            task_description="Change it", workspace_path=str(project), model=play(tmp_path, ("Done.",))
        )
        await start_agent(store, request, PROGRAM)
        going.close()
        [ended] = await wait_for(store, all_ended)
        assert (ended.state, ended.message) == ("done", "Done.")


@pytest.mark.parametrize(
    ("url", "branch"),
    [
        ("ext::sh -c 'touch /tmp/x'", ""),
        ("--upload-pack=touch /tmp/x", ""),
        ("https://host/x.git; touch /tmp/x", ""),
        ("ssh://-oProxyCommand=x/y", ""),
        ("https://user:secret@host/x.git", ""),
        ("http://host/x.git", ""),
        ("/etc", ""),
        ("https://host/x.git", "--upload-pack=x"),
        ("https://host/x.git", "a..b"),
    ],
)
async def test_an_address_with_a_shell_or_an_option_in_it_is_no_repository(url, branch):
    async with opened(SqliteStore(make_agents_dir())) as store:
        with pytest.raises(CommandRejected):
            await start_agent(store, AgentRequest(task_description="x", repository_url=url, branch=branch), ())
        assert await store.list_agents() == []


async def test_a_repository_is_cloned_without_its_hooks_and_one_that_is_not_there_is_told(tmp_path, repository):
    hook = tmp_path / "origin" / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    async with opened(SqliteStore(make_agents_dir())) as store, working(store):
        model = play(tmp_path, (EDIT, "Done."))
        for url in (repository, "file:///nowhere/at/all"):
            await start_agent(store, AgentRequest(task_description="x", repository_url=url, model=model), ())
        failed, ended = await wait_for(store, all_ended)
        assert (ended.state, ended.pending) == ("done", 1)
        assert failed.state == "failed"
        assert "can't be cloned" in failed.message
    assert not (tmp_path / "ran").exists()


async def test_what_an_agent_did_in_a_clone_is_pushed_as_a_branch_when_the_user_says_so(tmp_path, repository):
    origin = Path(repository.removeprefix("file://"))
    async with opened(SqliteStore(make_agents_dir())) as store, working(store):
        model = play(tmp_path, (EDIT, "Done."))
        await start_agent(store, AgentRequest(task_description="Say two", repository_url=repository, model=model), ())
        [ended] = await wait_for(store, all_ended)
        with pytest.raises(CommandRejected):
            await push_agent(store, ended, "--force")
        hook = get_agent_dir(ended.id) / "project" / ".git" / "hooks" / "pre-commit"
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
        assert await push_agent(store, ended, "say-two") == "say-two"
    commit_text = show_commit(origin, "say-two")
    assert commit_text.startswith("Say two\n")
    assert "+two" in commit_text
    assert (origin / "a.txt").read_text() == "one\n"
    assert not (tmp_path / "ran").exists()


@contextlib.contextmanager
def workers(server: Server, count: int, tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers as processes, each on a machine of its own: with its own state directory."""
    started = []
    for number in range(count):
        state = tmp_path / f"machine-{number}"
        environment = {**os.environ, "AGENT_TUI_STATE_DIR": str(state)}
        words = ["agents", "worker", "--database", server.url, "--lease", "2", "--concurrency", "3"]
        started.append(subprocess.Popen([*PROGRAM, *words], env=environment, stderr=subprocess.DEVNULL))
    try:
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


async def test_six_agents_of_a_team_end_once_each_though_a_worker_is_killed_in_a_command(
    tmp_path, repository, project, postgres
):
    model = play(tmp_path, (EDIT, command("sleep 3"), "Done."), ("Done.",))
    async with opened(open_store(postgres.url, lease=2.0)) as store:
        with workers(postgres, 2, tmp_path) as machines:
            for number in range(6):
                request = AgentRequest(task_description=f"Change {number}", repository_url=repository, model=model)
                await start_agent(store, request, ())
            await wait_for(store, lambda agents: len({agent.worker for agent in agents if agent.session}) == 2)
            victim = str(machines[0].pid)
            machines[0].kill()
            stored_agents = await wait_for(store, all_ended)
        assert [agent.state for agent in stored_agents] == ["done"] * 6
        assert all(agent.pending == 1 for agent in stored_agents)
        taken_up = [agent for agent in stored_agents if agent.attempt > 1]
        assert taken_up
        assert all(not agent.worker.endswith(f":{victim}") for agent in taken_up)
        for agent in stored_agents:  # each turn of the task was begun once
            log = await store.read_log(agent.id)
            assert log.count(f'"type":"turn.started","prompt":"{agent.title}"'.encode()) == 1
        changes = await read_changes(project, await pull_agent(store, taken_up[0], project))
        assert list(changes) == ["a.txt"]


async def test_a_worker_that_is_told_to_end_hands_its_agents_over(tmp_path, repository, postgres):
    model = play(tmp_path, (EDIT, command("sleep 60"), "Done."), ("Went on.",))
    async with opened(open_store(postgres.url, lease=30.0)) as store:
        with workers(postgres, 1, tmp_path) as machines:
            request = AgentRequest(task_description="x", repository_url=repository, model=model)
            await start_agent(store, request, ())
            async for _ in awatch(tmp_path, step=50, rust_timeout=500, yield_on_timeout=True):
                if any(b"sleep 60" in log.read_bytes() for log in tmp_path.glob("machine-0/agents/**/log.jsonl")):
                    break
            machines[0].terminate()
            await asyncio.to_thread(machines[0].wait, 30)
        [queued] = await store.list_agents()
        assert (queued.state, queued.worker, queued.attempt) == ("queued", "", 1)
        async with working(store):
            [ended] = await wait_for(store, all_ended)
        assert (ended.state, ended.attempt) == ("done", 2)


async def test_a_database_that_goes_away_and_comes_back_costs_no_agent(tmp_path, repository, postgres):
    model = play(tmp_path, (EDIT, command("sleep 2"), "Done."), ("Done.",))
    store = open_store(postgres.url, lease=2.0)
    async with opened(store), working(store):
        agent = await start_agent(store, AgentRequest(task_description="x", repository_url=repository, model=model), ())
        await wait_for(store, lambda agents: bool(agents[0].session))
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)
        [ended] = await wait_for_reconnected(store)
        assert (ended.id, ended.state, ended.pending) == (agent.id, "done", 1)


async def wait_for_reconnected(store: AgentStore) -> list[BackgroundAgent]:
    from core.background.store import StoreUnavailable

    async for _ in store.watch():
        with contextlib.suppress(StoreUnavailable):
            agents = await store.list_agents()
            if all_ended(agents):
                return agents
    raise AssertionError("the store ended")


async def test_who_watches_is_cancelled_also_when_news_come_in_that_moment(tmp_path):
    store = SqliteStore(tmp_path)
    await store.open()
    for turns in range(8):
        waiting = asyncio.Event()

        async def watch(waiting: asyncio.Event = waiting) -> None:
            async for _ in store.watch():
                waiting.set()

        task = asyncio.create_task(watch())
        await waiting.wait()
        store._wake()
        for _ in range(turns):  # the cancellation comes so many turns of the loop after the news
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turn.set_result, None)
            await turn
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=2)
        assert done, turns
