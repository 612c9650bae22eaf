"""The index in runs that nobody looks at: `agent-tui -p` and background agents."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from core.background.control import start_agent
from core.background.locations import get_agent_dir, open_store
from core.background.records import AgentRequest
from core.index.database import FILE_NAME, lock_for_building
from core.sessions.store import SessionStore
from core.user_dirs import get_state_dir
from tests.support.background import all_ended, opened, wait_for, working
from tests.support.model_server.step import Call, Step
from tests.support.processes import list_processes
from tests.support.program import KEY, PROGRAM, environment, run
from tests.support.provider_server import provider_server
from tests.support.trust import trust

MAIL = "def send_receipt(address):\n    '''E-mail the customer.'''\n    post(address)\n"
SEARCH = Call(name="codebase_search", arguments={"query": "send_receipt to a customer"})
PLACE = "shop/mail.py:1-3 send_receipt"
UNBUILT = "The index is being built"
NONE = "There is no index"
LAST_SEARCH = (Step(calls=[SEARCH]), "Done.")
SEARCHES = (Step(calls=[SEARCH]), Step(calls=[SEARCH], hold="before"), "Done.")
MODEL = "openai/tiny-1"
BUILDER = "core.index.builder"


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "mail.py").write_text(MAIL)
    (root / "shop" / "till.py").write_text("class Till:\n    def add_tax(self, price):\n        return price\n")
    trust(root)
    return root


def database(project):
    return SessionStore(project).path / FILE_NAME


def commit(project):
    """Make a repository of a project."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "one")):
        subprocess.run(["git", *words], cwd=project, check=True)


async def build(project):
    """Build the index, or wait for who does it."""
    assert (await run(project, "index", "build", env=environment(None))).code == 0


def results(request):
    """What the searches of a conversation were answered with."""
    return [message["content"] for message in request.json["messages"] if message["role"] == "tool"]


def is_being_built(project):
    """True while somebody holds the lock of those who build."""
    lock = lock_for_building(database(project))
    if lock is not None:
        os.close(lock)
    return lock is None


async def wait_for_builder(project, *, runs=True):
    """Wait until the index of a project is being built, or no longer is."""
    async with asyncio.timeout(30):
        while await asyncio.to_thread(is_being_built, project) != runs:
            pass


@asynccontextmanager
async def asked(project, steps, *words):
    """A run of `agent-tui -p` and the server of its model; the run has ended behind the block."""
    async with provider_server(steps) as server:
        arguments = ("-p", "Where are receipts sent?", "--model", MODEL, *words)
        running = asyncio.ensure_future(run(project, *arguments, env=environment(server)))
        yield server
        ended = await running
        assert (ended.code, ended.out.strip()) == (0, "Done."), ended.err


async def test_a_print_run_finds_by_an_index_that_is_there(project):
    await build(project)
    async with asked(project, LAST_SEARCH) as server:
        pass
    (answer,) = results(server.answered[-1])
    assert answer.startswith(PLACE)
    assert UNBUILT not in answer
    assert NONE not in answer


async def test_the_first_searches_of_a_print_run_wait_for_the_index_to_be_built(project):
    async with asked(project, (Step(calls=[SEARCH, SEARCH]), "Done.")) as server:
        pass
    for answer in results(server.answered[-1]):
        assert answer.startswith(PLACE)
        assert UNBUILT not in answer
        assert NONE not in answer
    assert not list_processes(BUILDER, str(project))


async def test_a_print_run_whose_index_can_not_be_made_finds_by_words_and_says_why(project):
    database(project).with_name("index.lock").mkdir(parents=True)
    async with asked(project, LAST_SEARCH) as server:
        pass
    (answer,) = results(server.answered[-1])
    assert "shop/mail.py" in answer
    assert f"{NONE} (the index can't be created" in answer


async def test_a_print_run_says_of_a_search_that_the_index_is_being_built_and_finds_by_it_when_it_is(project):
    lock = lock_for_building(database(project))  # a builder that does nothing
    assert lock is not None
    async with asked(project, SEARCHES) as server:
        await server.hanging.wait()
        os.close(lock)
        await build(project)
        server.released.set()
    early, late = results(server.answered[-1])
    assert "shop/mail.py" in early, "by its words"
    assert UNBUILT in early
    assert late.startswith(PLACE)


async def test_two_print_runs_at_once_have_one_builder_and_both_find_by_its_index(project):
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(asked(project, SEARCHES)) for _ in range(2)]
        for server in servers:
            await server.hanging.wait()
        assert len(list_processes(BUILDER, str(project))) == 1
        await build(project)
        for server in servers:
            server.released.set()
    for server in servers:
        assert results(server.answered[-1])[-1].startswith(PLACE)
    assert not list_processes(BUILDER, str(project))


async def test_a_print_run_that_searches_nothing_has_the_index_begun_and_leaves_what_can_be_gone_on_with(project):
    for number in range(300):
        (project / f"part{number}.py").write_text("".join(f"def work_{number}_{n}():\n    pass\n" for n in range(60)))
    async with asked(project, (Step(text="Done.", hold="before"),)) as server:
        await server.hanging.wait()
        await wait_for_builder(project)
        server.released.set()
    assert not is_being_built(project), "its builder has ended with it"
    await build(project)
    async with asked(project, LAST_SEARCH) as server:
        pass
    assert results(server.answered[-1])[0].startswith(PLACE)


async def test_a_print_run_that_is_killed_leaves_no_builder(project):
    async with provider_server((Step(text="Done.", hold="before"),)) as server:
        arguments = ("-p", "Where are receipts sent?", "--model", MODEL)
        running = await asyncio.create_subprocess_exec(
            *PROGRAM, *arguments, cwd=project, env=environment(server), stdin=subprocess.DEVNULL
        )
        await server.hanging.wait()
        await wait_for_builder(project)
        running.kill()
        await running.wait()
        await wait_for_builder(project, runs=False)
    assert not list_processes(BUILDER, str(project))


@pytest.mark.parametrize("words", [("--private",), ()])
async def test_a_private_run_and_one_without_an_index_leave_none_on_the_disk(project, words):
    if not words:
        (project / ".agent-tui").mkdir()
        (project / ".agent-tui" / "config.toml").write_text("[index]\nenabled = false\n")
        trust(project)
    async with asked(project, SEARCHES, *words) as server:
        await server.hanging.wait()
        server.released.set()
    for answer in results(server.answered[-1]):
        assert "shop/mail.py" in answer, "by its words"
        assert (NONE in answer) == (not words)
    assert not database(project).exists()
    assert not list_processes(BUILDER, str(project))


async def test_a_subagent_finds_by_the_index_of_its_print_run(project):
    await build(project)
    task = {"description": "Look", "prompt": "Where are receipts sent?", "subagent_type": "explore"}
    steps = (Step(calls=[Call(name="task", arguments=task)]), *LAST_SEARCH, "Done.")
    async with asked(project, steps) as server:
        pass
    answers = [answer for request in server.answered for answer in results(request)]
    assert any(PLACE in answer for answer in answers)
    assert not any(NONE in answer or UNBUILT in answer for answer in answers)


async def run_agent(server, monkeypatch, **request):
    """Run a background agent to its end and return its record."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent_request = AgentRequest(task_description="Where are receipts sent?", model=MODEL, **request)
    async with opened(open_store()) as store:
        await start_agent(store, agent_request, ())
        async with working(store):
            [ended] = await wait_for(store, all_ended)
    assert (ended.state, ended.message) == ("done", "Done.")
    return ended


async def test_a_background_agent_finds_by_the_index_of_its_project(project, monkeypatch):
    await build(project)
    async with provider_server(LAST_SEARCH) as server:
        await run_agent(server, monkeypatch, workspace_path=str(project))
    (answer,) = results(server.answered[-1])
    assert answer.startswith(PLACE)
    assert UNBUILT not in answer
    assert NONE not in answer


async def test_a_background_agent_builds_the_index_of_its_project_for_all(project, monkeypatch):
    async with provider_server(LAST_SEARCH) as server:
        ended = await run_agent(server, monkeypatch, workspace_path=str(project))
    (answer,) = results(server.answered[-1])
    assert answer.startswith(PLACE)
    assert UNBUILT not in answer
    assert NONE not in answer
    assert database(project).exists()
    assert not list(get_agent_dir(ended.id).rglob(FILE_NAME)), "it has none of its own"
    assert not list_processes(BUILDER, str(project))


async def test_the_index_of_a_clone_lies_with_its_background_agent_and_goes_with_it(project, monkeypatch):
    commit(project)
    async with provider_server(LAST_SEARCH) as server:
        ended = await run_agent(server, monkeypatch, repository_url=f"file://{project}")
    (answer,) = results(server.answered[-1])
    assert answer.startswith(PLACE)
    assert list(get_agent_dir(ended.id).rglob("index.lock"))
    assert not list((get_state_dir() / "workspaces").rglob("index.*"))
