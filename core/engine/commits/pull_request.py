"""A pull request of the current branch: its text with the evidence of the session, the push, and gh or glab.

Nothing is sent before the user's command, which names branch, remote and text. It runs unsandboxed, since it needs the
user's logins.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from core.agent.base.prompt_tags import escape_tags, wrap_tag
from core.agent.context.turn_context import TurnContext
from core.engine.commits.drafting import ask_side_models
from core.engine.session.pending_changes import ReviewedSession
from core.engine.session.session import Session
from core.engine.turns.prompt_sources import build_session_reader, may_show
from core.errors import CommandRejected
from core.git.branch_diff import find_base, render_branch_diff
from core.git.repository import (
    GitFailed,
    GitRepository,
    find_confirmed_repository,
    find_git,
    open_repository,
    read_config_text,
    read_settings,
)
from core.git.safe_config import ConfigPairs, find_last
from core.git.temporary_directories import make_temporary_directory
from core.git.work_state import list_subjects, read_branch_name, read_head
from core.patterns import compile_lazily
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import run_unboxed
from core.search_paths import restore_user_paths
from core.shell.command_host import build_unsandboxed_environment
from core.shell.verification.single_check import parse_check
from core.state.proof_text import describe_accepted
from core.state.receipt import describe_checks
from core.state.session import SessionState

PUSH_SECONDS: Final = 300.0
NOT_VERIFIED: Final = "run by the agent, not verified again"
BY_OWN_TESTS: Final = "run again in a clean layer, with tests or settings changed here"
_MAX_BRANCH: Final = 50  # characters
_MAX_DIFF: Final = 24_000  # characters
_PROGRAMS: Final = {"github": "gh", "gitlab": "glab"}
_URL: Final = compile_lazily(r"https?://[^\s'\"<>]+")
_SCP: Final = compile_lazily(r"(?:[^@/]+@)?([^:/]+):(?!//)")
_NO_NAME: Final = compile_lazily(r"[^a-z0-9]+")


def build_pull_request(session: ReviewedSession) -> q.PullRequestAnswer:
    """Return the preview of a pull request, or a refusal. Slow: call it in a thread. Never raises."""
    root = session.workspace.root
    try:
        base, layout = find_base(root), find_confirmed_repository(root)
        with open_repository(root, may_be_above=True) as repository:
            if repository is None or layout is None:
                raise GitFailed("this directory is not in a git repository.")
            settings = read_settings(repository, read_config_text(layout))[1]
            return _describe_branch(session.state, repository, settings, base.main if base else "")
    except GitFailed as problem:
        return q.PullRequestAnswer(refused=problem.message)


def _describe_branch(
    state: SessionState, repository: GitRepository, settings: ConfigPairs, main: str
) -> q.PullRequestAnswer:
    head = read_head(repository)
    remote, address = _find_remote(settings, head.branch)
    if not remote:
        return q.PullRequestAnswer(refused="the repository has no remote.", hint="Add one: git remote add origin URL")
    base = read_branch_name(repository, main).removeprefix(f"{remote}/")
    subjects = list_subjects(repository, main)
    if not subjects:
        return q.PullRequestAnswer(
            refused=f"{base or 'the remote'} already has all commits of this branch.", hint="Commit first: /commit"
        )
    title, url = subjects[0] if len(subjects) == 1 else state.title or subjects[-1], hide_login(address)
    return q.PullRequestAnswer(
        branch=head.branch if head.branch and head.branch != base else _propose_branch(title),
        base=base,
        remote=remote,
        url=url,
        program=find_program(url),
        commits=tuple(subjects),
        title=title,
        body=write_body(subjects, *list_evidence(state)),
    )


def _list_remotes(settings: ConfigPairs) -> dict[str, str]:
    """Return the addresses of remotes by name."""
    return {name[7:-4]: url for name, url in settings if url and name.startswith("remote.") and name.endswith(".url")}


def _find_remote(settings: ConfigPairs, branch: str) -> tuple[str, str]:
    """Return name and address of the remote of a branch; "" = there is none."""
    remotes = _list_remotes(settings)
    configured_remote = find_last(settings, f"branch.{branch}.remote") or ""
    remote = (
        configured_remote
        if configured_remote in remotes
        else "origin"
        if "origin" in remotes
        else next(iter(remotes), "")
    )
    return remote, remotes.get(remote) or ""


def read_remote_urls(root: Path) -> list[str]:
    """Return the addresses of all remotes, that of the current branch first. Raises `GitFailed`, OSError."""
    layout = find_confirmed_repository(root)
    with open_repository(root, may_be_above=True) as repository:
        if repository is None or layout is None:
            raise GitFailed("this directory is not in a git repository.")
        settings = read_settings(repository, read_config_text(layout))[1]
        first = _find_remote(settings, read_head(repository).branch)[1]
        return [hide_login(url) for url in dict.fromkeys((first, *_list_remotes(settings).values())) if url]


def find_repository_name(url: str) -> str:
    """Return the path of a repository at its host, as `me/project`; "" = there is none."""
    path = urlsplit(url).path if "://" in url else url.partition(":")[2]
    return path.strip("/").removesuffix(".git")


def _propose_branch(title: str) -> str:
    words = _NO_NAME.sub("-", title.lower()).strip("-")
    slug = words if len(words) <= _MAX_BRANCH else words[:_MAX_BRANCH].rpartition("-")[0]
    return slug or words[:_MAX_BRANCH] or "changes"


def hide_login(url: str) -> str:
    """Return the address of a remote without user name and password."""
    parts = urlsplit(url)
    if not parts.scheme or "@" not in parts.netloc:
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def find_host(url: str) -> str:
    """Return the host of a remote's address, "" = there is none."""
    return urlsplit(url).hostname or (match[1] if (match := _SCP.match(url)) else "")


def find_program(url: str) -> str:
    """Return the installed program that opens pull requests at a remote's host; "" = there is none."""
    host = find_host(url)
    program = next((name for word, name in _PROGRAMS.items() if word in host.lower()), "")
    return program if program and shutil.which(program) else ""


def list_evidence(state: SessionState) -> tuple[list[str], list[str]]:
    """Describe the checks that had passed over the committed changes, and list their todos. Only checks that the
    program ran again in a clean layer count as verified; others are marked."""
    committed_ids = state.review.committed
    verdicts = [verdict for verdict in state.review.verdicts if verdict.id in committed_ids]
    checks = [
        verdict_record.check
        for verdict_record in verdicts
        if verdict_record.check is not None and verdict_record.check.has_passed
    ]
    proofs = [
        verification
        for verification in state.verifications.values()
        if verification.has_passed and not verification.is_unboxed
    ]
    verified_commands = dict.fromkeys(check.command for check in checks if check.is_verified)
    verified_commands |= dict.fromkeys(
        proof.command
        for proof in proofs
        if not proof.changed_here and parse_check(proof.command, workspace=state.workspace)
    )
    others = dict.fromkeys(check.command for check in checks if check.command not in verified_commands)
    by_own_tests = {check.command for check in checks if check.changed_here}
    evidence = [
        f"{description}, run again in a clean layer" for description in describe_checks(state, verified_commands, "`")
    ]
    for command, words in zip(others, describe_checks(state, others, "`"), strict=True):
        evidence.append(f"{words}, {BY_OWN_TESTS if command in by_own_tests else NOT_VERIFIED}")
    if hunks := describe_accepted(state.review.proof, verdicts):
        evidence.append(f"hunk by hunk: {hunks}")
    todo_ids = {hunk.todo for verdict_record in verdicts for hunk in verdict_record.hunks}
    todos = [todo.content for todo in state.todos if todo.id in todo_ids]
    return evidence, todos


def write_body(subjects: Sequence[str], checks: Sequence[str], todos: Sequence[str]) -> str:
    """Write the text of a pull request without a model."""
    parts = ["\n".join(f"- {subject}" for subject in subjects)]
    if checks or todos:
        check_lines = [f"- passed: {check}" for check in checks]
        todo_lines = [f"- [x] {' '.join(todo.split())}" for todo in todos]
        parts.append("## Evidence\n\n" + "\n".join((*check_lines, *todo_lines)))
    return "\n\n".join(parts) + "\n"


async def draft_pull_request(session: Session, context: TurnContext) -> None:
    """Have a model write title and text; emit them."""
    answer = await asyncio.to_thread(build_pull_request, session)
    if answer.refused:
        raise CommandRejected(answer.refused, hint=answer.hint, code="no_pull_request")
    is_visible = partial(may_show, build_session_reader(session))
    diff = await asyncio.to_thread(render_branch_diff, session.workspace.root, is_visible)
    checks, todos = list_evidence(session.state)
    prompts = list(dict.fromkeys(turn.request for turn in session.state.turns))
    sections = {
        "commits": answer.commits,
        "asked": prompts,
        "todos": todos,
        "passed": checks,
        "diff": (diff[:_MAX_DIFF],),
    }
    parts = [wrap_tag(name, escape_tags("\n".join(values))) for name, values in sections.items() if any(values)]
    async for reply, model in ask_side_models(context, "pull_request", "\n".join(parts)):
        title, _, body = reply.strip().partition("\n")
        if title.strip("# "):
            context.emit(ev.PullRequestDrafted(title=title.strip("# "), body=body.strip() + "\n", model=model))
            return
    context.emit(ev.PullRequestDrafted(title=answer.title, body=answer.body))


async def open_pull_request(session: Session, command: cmd.PullRequestOpen) -> None:
    """Push the branch, then have gh or glab open the request; emit the result."""
    answer = await asyncio.to_thread(build_pull_request, session)
    push_result = await _run(session, build_push_command(session, command))
    if push_result.exit_code != 0:
        session.emit_outside_turn(_describe_failure("push", "git push", push_result))
        return
    url, output = _find_url(push_result.output), push_result.output
    if answer.program and answer.remote == command.remote:
        with ExitStack() as stack:
            directory = stack.enter_context(make_temporary_directory())
            (directory / "body").write_text(command.body, encoding="utf-8", errors="surrogateescape")
            open_result = await _run(session, build_request_command(answer.program, command, str(directory / "body")))
        if open_result.exit_code != 0:
            session.emit_outside_turn(_describe_failure("pull_request", answer.program, open_result))
            return
        url, output = _find_url(open_result.output) or url, f"{output}\n{open_result.output}"
    session.emit_outside_turn(ev.PullRequestOpened(branch=command.branch, url=url, output=output.strip()))


def build_push_command(session: Session, command: cmd.PullRequestOpen) -> tuple[str, ...]:
    """Return the arguments of the push. It sets the upstream of the current branch only if that has the same name."""
    with open_repository(session.workspace.root, may_be_above=True) as repository:
        follows = repository is not None and read_head(repository).branch == command.branch
    upstream = ("--set-upstream",) if follows else ()
    git = find_git(session.workspace.root)
    return (git, "push", *upstream, "--", command.remote, f"HEAD:refs/heads/{command.branch}")


def build_request_command(program: str, command: cmd.PullRequestOpen, body: str) -> tuple[str, ...]:
    """Return the arguments of gh or glab. `body`: a file with the text."""
    base = ("--base" if program == "gh" else "--target-branch", command.base) if command.base else ()
    draft = ("--draft",) if command.is_draft else ()
    if program == "gh":
        return (
            "gh",
            "pr",
            "create",
            "--head",
            command.branch,
            *base,
            "--title",
            command.title,
            "--body-file",
            body,
            *draft,
        )
    source = ("--source-branch", command.branch)
    return (
        "glab",
        "mr",
        "create",
        *source,
        *base,
        "--title",
        command.title,
        "--description",
        command.body,
        "--yes",
        *draft,
    )


async def _run(session: Session, words: Sequence[str]) -> CommandResult:
    # git is an absolute path, and its hooks get the user's environment; gh and glab are searched on PATH.
    source = restore_user_paths(os.environ) if words[0].startswith("/") else os.environ
    environment = build_unsandboxed_environment(source) | {"GIT_TERMINAL_PROMPT": "0"}

    def report_progress(text: str) -> None:
        session.emit_outside_turn(ev.CommitProgressed(text=text))

    root = session.workspace.root
    return await run_unboxed(
        shlex.join(words), cwd=root, env=environment, time_limit=PUSH_SECONDS, on_output=report_progress
    )


def _describe_failure(stage: Literal["push", "pull_request"], program: str, result: CommandResult) -> ev.CommitFailed:
    outcome = "took too long" if result.timed_out else f"ended with {result.exit_code}"
    hint = "The branch is pushed." if stage == "pull_request" else "Nothing was sent."
    return ev.CommitFailed(stage=stage, message=f"{program} {outcome}.", hint=hint, output=result.output.strip())


def _find_url(output: str) -> str:
    urls = _URL.findall(output)
    return str(urls[-1]).rstrip(".,;:)") if urls else ""
