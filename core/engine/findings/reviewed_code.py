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
from core.shell.outside.machine_run import build_machine_environment
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
        hunks = [each for each in list_right_hunks(self.diff.patch) if each.path == path]
        return {each.start + at: line for each in hunks for at, line in enumerate(each.lines)}


async def read_reviewed_code(session: Session, wanted: str) -> ReviewedCode:
    """Read what is to be reviewed. Raises `CommandRejected`, also where nothing differs."""
    source = ""
    try:
        if (request := _name_request(wanted)) is not None:
            diff, source = await _read_request(session, *request)
        elif wanted == PENDING:
            diff = await asyncio.to_thread(_read_pending, session)
        else:
            shown = partial(may_show, build_session_reader(session))
            diff = await asyncio.to_thread(read_reviewed_diff, session.workspace.root, wanted, shown)
    except GitFailed as problem:
        raise CommandRejected(problem.message, hint=problem.hint, code="nothing_to_review") from problem
    if not diff.patch.strip():
        why = f" ({diff.left_out} paths are kept from the agent)" if diff.left_out else ""
        hint = "Name a branch, a pull request or commits: /review main, /review 12, /review HEAD~3..HEAD"
        if session.state.changes and wanted != PENDING:
            hint = f"/review {PENDING} looks at what waits for your review."
        raise CommandRejected(f"{diff.subject}: nothing differs{why}.", hint=hint, code="nothing_to_review")
    end = len(diff.patch) if len(diff.patch) <= MAX_PATCH else diff.patch.rfind("\n", 0, MAX_PATCH) + 1
    return ReviewedCode(diff=diff, cut=len(diff.patch) - end, source=source)


def _read_pending(session: Session) -> ReviewedDiff:
    """Return what waits for the user's verdict; slow. Raises `GitFailed`."""
    reader = build_session_reader(session)
    shown = tuple(each for each in session.state.changes if may_show(reader, each))
    found = build_patch(session, q.PatchQuery(which="pending", paths=shown)).patch if shown else b""
    files = _FILE.split(found.decode("utf-8", "replace"))
    texts = [each for each in files if _BINARY not in each]
    hidden = len(session.state.changes) - len(shown) + len(files) - len(texts)
    return ReviewedDiff(subject="what waits for the user's review", patch="".join(texts), left_out=hidden)


def _name_request(wanted: str) -> tuple[str, str] | None:
    """Return the number of a pull request, and its address if it was given; None: it is none."""
    found = _ADDRESS.fullmatch(wanted)
    if found is not None:
        return found["number"], found["address"]
    number = _NUMBER.fullmatch(wanted)
    return (number[1], "") if number else None


async def _read_request(session: Session, request: str, named: str) -> tuple[ReviewedDiff, str]:
    """Have gh or glab print the diff of a pull request of a remote of the project; return its host, too."""
    urls = await asyncio.to_thread(read_remote_urls, session.workspace.root)
    known = {(find_host(each), find_repository_name(each)) for each in urls}
    if named and (find_host(named), find_repository_name(named)) not in known:
        hint = "Your login is used for this project's own repositories alone. Fetch the branch, and name that."
        raise CommandRejected(f"{named} is no remote of this project.", hint=hint, code="no_pull_request")
    address = named or next(iter(urls), "")
    program, host = find_program(address), find_host(address) or "the remote"
    if not program:
        there = [each for each in _WORDS if shutil.which(each)]
        hint = "They read pull requests of GitHub and GitLab with your login. A branch needs none: /review BRANCH"
        lack = f"{host} is none of theirs" if there else "neither gh nor glab is installed"
        raise CommandRejected(f"the pull request {request} can't be read: {lack}.", hint=hint, code="no_pull_request")
    session.services.trust.check()  # they ask the user's git about the repository
    words = [each.format(request) for each in _WORDS[program]]
    environment = build_machine_environment(os.environ) | {"GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"}
    root = session.workspace.root
    result = await run_unboxed(
        shlex.join(words), cwd=root, env=environment, time_limit=REQUEST_SECONDS, on_output=lambda _: None
    )
    if result.exit_code != 0:
        how = "took too long" if result.timed_out else f"ended with {result.exit_code}"
        raise CommandRejected(
            f"{' '.join(words[:3])} {how}.", hint=result.output.strip()[-400:], code="no_pull_request"
        )
    subject = f"pull request {request}" if program == "gh" else f"merge request {request}"
    return ReviewedDiff(subject=subject, patch=result.output, revision=f"#{request}"), host
