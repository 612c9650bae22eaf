"""The code that a review looks at: what waits for the user, a branch or commits by git, a pull request by gh or glab.

These two run on the user's machine, as only there are their logins; the command that names the request is their yes.
What they print was written by others, and is told to the model as data.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from functools import partial
from typing import Final

from msgspec import Struct

from core.engine.commits.patch import build_patch
from core.engine.commits.pull_request import find_host, find_program, find_repository_name, read_remote_urls
from core.engine.prompt_sources import build_session_reader, may_show
from core.engine.session.session import Session
from core.errors import CommandRejected
from core.git.branch_diff import ReviewedDiff, read_reviewed_diff
from core.git.repository import GitFailed
from core.protocol import queries as q
from core.sandbox.unboxed_run import run_unboxed
from core.shell.unsandboxed_run import build_unsandboxed_environment
from core.text.patch_hunks import list_right_hunks

REQUEST_SECONDS: Final = 60.0
MAX_PATCH: Final = 200_000  # characters that the model is sent
_NUMBER: Final = re.compile(r"(?:PR|MR)?[#!]?(\d+)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?P<address>https?://\S+?)/(?:-/)?(?:pull|merge_requests)/(?P<number>\d+)\S*")
_FILE: Final = re.compile(r"^(?=diff --git )", re.MULTILINE)
_BINARY: Final = "\nGIT binary patch\n"
PENDING: Final = "pending"  # as a branch: heads/pending
_WORDS: Final = {
    "gh": ("gh", "pr", "diff", "{}", "--color", "never"),
    "glab": ("glab", "mr", "diff", "{}", "--color", "never"),
}


class ReviewedCode(Struct, frozen=True, kw_only=True):
    """The code under review. `cut`: characters of its diff that the model is not sent; `source`: the host where others
    wrote it, "" = it is the user's own."""

    diff: ReviewedDiff
    cut: int = 0
    source: str = ""

    @property
    def shown(self) -> str:
        """The diff as far as it is sent, cut at a line."""
        return self.diff.patch[: len(self.diff.patch) - self.cut]

    def read_lines(self, path: str) -> dict[int, str]:
        """Return the lines of the right side of the diff, by their number."""
        hunks = [hunk for hunk in list_right_hunks(self.diff.patch) if hunk.path == path]
        return {hunk.start + index: line for hunk in hunks for index, line in enumerate(hunk.lines)}


async def read_reviewed_code(session: Session, target: str) -> ReviewedCode:
    """Read what is to be reviewed. Raises `CommandRejected`, also where nothing differs."""
    source = ""
    try:
        if (request := _name_request(target)) is not None:
            diff, source = await _read_request(session, *request)
        elif target == PENDING:
            diff = await asyncio.to_thread(_read_pending, session)
        else:
            is_visible = partial(may_show, build_session_reader(session))
            diff = await asyncio.to_thread(read_reviewed_diff, session.workspace.root, target, is_visible)
    except GitFailed as problem:
        raise CommandRejected(problem.message, hint=problem.hint, code="nothing_to_review") from problem
    if not diff.patch.strip():
        note = f" ({diff.left_out} paths are kept from the agent)" if diff.left_out else ""
        hint = "Name a branch, a pull request or commits: /review main, /review 12, /review HEAD~3..HEAD"
        if session.state.changes and target != PENDING:
            hint = f"/review {PENDING} looks at what waits for your review."
        raise CommandRejected(f"{diff.subject}: nothing differs{note}.", hint=hint, code="nothing_to_review")
    end = len(diff.patch) if len(diff.patch) <= MAX_PATCH else diff.patch.rfind("\n", 0, MAX_PATCH) + 1
    return ReviewedCode(diff=diff, cut=len(diff.patch) - end, source=source)


def _read_pending(session: Session) -> ReviewedDiff:
    """Return what waits for the user's verdict; slow. Raises `GitFailed`."""
    reader = build_session_reader(session)
    visible_paths = tuple(path for path in session.state.changes if may_show(reader, path))
    patch = build_patch(session, q.PatchQuery(which="pending", paths=visible_paths)).patch if visible_paths else b""
    files = _FILE.split(patch.decode("utf-8", "replace"))
    texts = [file for file in files if _BINARY not in file]
    hidden_count = len(session.state.changes) - len(visible_paths) + len(files) - len(texts)
    return ReviewedDiff(subject="what waits for the user's review", patch="".join(texts), left_out=hidden_count)


def _name_request(target: str) -> tuple[str, str] | None:
    """Return the number of a pull request, and its address if it was given; None: it is none."""
    match = _ADDRESS.fullmatch(target)
    if match is not None:
        return match["number"], match["address"]
    number = _NUMBER.fullmatch(target)
    return (number[1], "") if number else None


async def _read_request(session: Session, request: str, request_url: str) -> tuple[ReviewedDiff, str]:
    """Have gh or glab print the diff of a pull request of a remote of the project; return its host, too."""
    urls = await asyncio.to_thread(read_remote_urls, session.workspace.root)
    known_repositories = {(find_host(url), find_repository_name(url)) for url in urls}
    if request_url and (find_host(request_url), find_repository_name(request_url)) not in known_repositories:
        hint = "Your login is used for this project's own repositories alone. Fetch the branch, and name that."
        raise CommandRejected(f"{request_url} is no remote of this project.", hint=hint, code="no_pull_request")
    address = request_url or next(iter(urls), "")
    program, host = find_program(address), find_host(address) or "the remote"
    if not program:
        installed_programs = [name for name in _WORDS if shutil.which(name)]
        hint = "They read pull requests of GitHub and GitLab with your login. A branch needs none: /review BRANCH"
        lack = f"{host} is none of theirs" if installed_programs else "neither gh nor glab is installed"
        raise CommandRejected(f"the pull request {request} can't be read: {lack}.", hint=hint, code="no_pull_request")
    session.services.trust.check()  # they ask the user's git about the repository
    words = [word.format(request) for word in _WORDS[program]]
    environment = build_unsandboxed_environment(os.environ) | {"GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"}
    root = session.workspace.root
    result = await run_unboxed(
        shlex.join(words), cwd=root, env=environment, time_limit=REQUEST_SECONDS, on_output=lambda _: None
    )
    if result.exit_code != 0:
        outcome = "took too long" if result.timed_out else f"ended with {result.exit_code}"
        raise CommandRejected(
            f"{' '.join(words[:3])} {outcome}.", hint=result.output.strip()[-400:], code="no_pull_request"
        )
    subject = f"pull request {request}" if program == "gh" else f"merge request {request}"
    return ReviewedDiff(subject=subject, patch=result.output, revision=f"#{request}"), host
