"""Push the work of a background agent as a branch of its repository: the user's command is the grant.

What waits for a review in the agent's own clone is accepted there, nowhere else, and committed by git with the user's
identity. Neither hooks nor filters of the repository run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

from core.background.places import get_agent_dir
from core.background.records import ENDED, BackgroundAgent
from core.background.repositories import GIT_OPTIONS, CloneFailed, check_repository_url, clone_repository
from core.background.session_archive import download_session
from core.background.store import AgentStore
from core.engine import Engine
from core.errors import AgentTuiError, CommandRejected
from core.filesystem.private_directories import make_private_directory
from core.protocol import commands as cmd
from core.protocol.options import EngineOptions
from core.sessions.store import SessionStore
from core.transports.session_client import SessionView, require_ack

PUSH_SECONDS: Final = 300.0


class PushFailed(AgentTuiError, code="push_failed"):
    """Git refused to commit or to push."""


async def push_agent(store: AgentStore, agent: BackgroundAgent, branch: str) -> str:
    """Commit what an agent did in its clone and push it as a new branch; return the branch. Raises `CommandRejected`,
    `CloneFailed`, `PushFailed`, `StateError`."""
    request = agent.request
    if not request.repository_url:
        hint = f"agent-tui agents pull {agent.id} brings it into your review."
        raise CommandRejected("it worked in a workspace, not in a clone.", hint=hint, code="nothing_to_push")
    if agent.state not in ENDED or not agent.session:
        raise CommandRejected(f"the agent is {agent.state}.", hint="Wait for its end.", code="agent_runs")
    check_repository_url(request.repository_url, branch)
    agent_dir = get_agent_dir(agent.id)
    clone, home = agent_dir / "project", agent_dir / "sessions"
    if not await asyncio.to_thread((clone / ".git").exists):  # it worked on another machine
        await asyncio.to_thread(make_private_directory, agent_dir)
        await clone_repository(request.repository_url, request.branch, clone)
    if store.keeps_sessions:
        await download_session(store, agent, SessionStore(clone, home))
    await _accept_all(clone, home, agent.session)
    await _run_git(clone, "checkout", "--quiet", "-B", branch)
    await _run_git(clone, "add", "--all")
    await _run_git(clone, "commit", "--quiet", "--no-verify", "-m", _format_message(agent))
    await _run_git(clone, "push", "--quiet", "--no-verify", "origin", f"refs/heads/{branch}")
    return branch


async def _accept_all(clone: Path, home: Path, session: str) -> None:
    """Accept in the clone what waits for a review. What can't be accepted in bulk, protected files say, stays back."""
    engine = Engine(clone, options=EngineOptions(watch=False, private=False, home=home, preload=False))
    try:
        require_ack(await engine.submit(cmd.SessionResume(session=session)))
        view = SessionView(engine, session)
        try:
            await view.settle()
            require_ack(await engine.submit(cmd.HunkResolve(session=session, path="", verdict="accept")))
            await view.settle()
            if view.state.changes:
                pending_paths = ", ".join(sorted(view.state.changes)[:5])
                hint = "Pull it, and decide on these in the review."
                raise PushFailed(f"Not accepted, so nothing was pushed: {pending_paths}.", hint=hint)
        finally:
            await view.close()
    finally:
        await engine.close()


def _format_message(agent: BackgroundAgent) -> str:
    return f"{agent.title}\n\n{agent.request.task_description.strip()}\n"


async def _run_git(clone: Path, *words: str) -> None:
    git = shutil.which("git")
    if git is None:
        raise CloneFailed("git is not installed.")
    process = await asyncio.create_subprocess_exec(
        *(git, *GIT_OPTIONS, *words),
        cwd=clone,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"},
    )
    try:
        async with asyncio.timeout(PUSH_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise PushFailed(f"git {words[0]} took longer than {PUSH_SECONDS:.0f} s.") from None
    if process.returncode:
        lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
        raise PushFailed(f"git {words[0]}: {lines[-1] if lines else 'it did not say why'}")
