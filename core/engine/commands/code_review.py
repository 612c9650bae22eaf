"""A code review: the diff that is reviewed, and the turn that reviews it with the rights of Ask mode.

The diff is of pending changes, of a branch or commits by git, or of a pull request by gh or glab. Those two run on the
user's machine, where their logins are; the command that names the request is the user's consent. Others wrote what they
print, so the model gets it as data.

Ask is the session's mode during the review, so that the gate, the model's reminders and every client see the same mode.
Models count lines badly, so each quotation is looked up: a finding moves to the only other position where its quotation
is, and a quotation that is nowhere is reported as doubtful.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.prompt_tags import escape_tags
from core.agent.context.turn_context import TurnContext
from core.agent.mentions.sources import PromptSurroundings
from core.engine.commits.patch import build_patch
from core.engine.commits.pull_request import find_host, find_program, find_repository_name, read_remote_urls
from core.engine.session.session import Session
from core.engine.turns.lifecycle import ask_model
from core.engine.turns.prompt_sources import build_session_reader, may_show
from core.errors import CommandRejected, PathRefused
from core.git.branch_diff import ReviewedDiff, read_reviewed_diff
from core.git.repository import GitFailed
from core.ids import new_id
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.review import Finding
from core.sandbox.unboxed_run import run_unboxed
from core.shell.command_host import build_unsandboxed_environment
from core.state.findings import read_findings
from core.text.patch_hunks import list_right_hunks
from core.text.quotations import QuotedPlace, locate_quotation
from core.tools.base import Reader

REQUEST_SECONDS: Final = 60.0
MAX_PATCH: Final = 200_000  # characters that the model is sent
_NUMBER: Final = compile_lazily(r"(?:PR|MR)?[#!]?(\d+)", re.IGNORECASE)
_ADDRESS: Final = compile_lazily(r"(?P<address>https?://\S+?)/(?:-/)?(?:pull|merge_requests)/(?P<number>\d+)\S*")
_FILE: Final = compile_lazily(r"^(?=diff --git )", re.MULTILINE)
_BINARY: Final = "\nGIT binary patch\n"
PENDING: Final = "pending"  # as a branch: heads/pending
_WORDS: Final = {
    "gh": ("gh", "pr", "diff", "{}", "--color", "never"),
    "glab": ("glab", "mr", "diff", "{}", "--color", "never"),
}
MAX_FILE: Final = 4_000_000  # bytes of a file in which a quotation is searched


class ReviewedCode(Struct, frozen=True, kw_only=True):
    """The code under review. `cut`: characters of its diff that the model is not sent; `source`: the host of a pull
    request, "" = the code is local."""

    diff: ReviewedDiff
    cut: int = 0
    source: str = ""

    @property
    def sent_patch(self) -> str:
        """The diff as far as it is sent, cut at a line."""
        return self.diff.patch[: len(self.diff.patch) - self.cut]

    def read_lines(self, path: str) -> dict[int, str]:
        """Return the lines of the right side of the diff, by their number."""
        hunks = [hunk for hunk in list_right_hunks(self.diff.patch) if hunk.path == path]
        return {hunk.start + index: line for hunk in hunks for index, line in enumerate(hunk.lines)}


async def read_reviewed_code(session: Session, target: str) -> ReviewedCode:
    """Read the code to review. Raises `CommandRejected`, also if nothing differs."""
    source = ""
    try:
        if (request := _parse_request(target)) is not None:
            diff, source = await _read_request(session, *request)
        elif target == PENDING:
            diff = await asyncio.to_thread(_read_pending, session)
        else:
            is_visible = partial(may_show, build_session_reader(session))
            diff = await asyncio.to_thread(read_reviewed_diff, session.workspace.root, target, is_visible)
    except GitFailed as problem:
        raise CommandRejected(problem.message, hint=problem.hint, code="nothing_to_review") from problem
    if not diff.patch.strip():
        note = f" ({diff.left_out} paths are hidden from the agent)" if diff.left_out else ""
        hint = "Give a branch, a pull request or commits: /review main, /review 12, /review HEAD~3..HEAD"
        if session.state.changes and target != PENDING:
            hint = f"/review {PENDING} reviews the pending changes."
        raise CommandRejected(f"{diff.subject}: no differences{note}.", hint=hint, code="nothing_to_review")
    end = len(diff.patch) if len(diff.patch) <= MAX_PATCH else diff.patch.rfind("\n", 0, MAX_PATCH) + 1
    return ReviewedCode(diff=diff, cut=len(diff.patch) - end, source=source)


def _read_pending(session: Session) -> ReviewedDiff:
    """Return the pending changes as a diff. Slow. Raises `GitFailed`."""
    reader = build_session_reader(session)
    visible_paths = tuple(path for path in session.state.changes if may_show(reader, path))
    patch = build_patch(session, q.PatchQuery(which="pending", paths=visible_paths)).patch if visible_paths else b""
    files = _FILE.split(patch.decode("utf-8", "replace"))
    texts = [file for file in files if _BINARY not in file]
    hidden_count = len(session.state.changes) - len(visible_paths) + len(files) - len(texts)
    return ReviewedDiff(subject="the changes pending the user's review", patch="".join(texts), left_out=hidden_count)


def _parse_request(target: str) -> tuple[str, str] | None:
    """Parse a target as a pull request: its number, and its address or ""; None: it is none."""
    match = _ADDRESS.fullmatch(target)
    if match is not None:
        return match["number"], match["address"]
    number = _NUMBER.fullmatch(target)
    return (number[1], "") if number else None


async def _read_request(session: Session, request: str, request_url: str) -> tuple[ReviewedDiff, str]:
    """Have gh or glab print the diff of a pull request of the project's remotes; return it with the host."""
    urls = await asyncio.to_thread(read_remote_urls, session.workspace.root)
    known_repositories = {(find_host(url), find_repository_name(url)) for url in urls}
    if request_url and (find_host(request_url), find_repository_name(request_url)) not in known_repositories:
        hint = "Your login is used only for this project's own repositories. Fetch the branch, and give its name."
        raise CommandRejected(f"{request_url} is not a remote of this project.", hint=hint, code="no_pull_request")
    address = request_url or next(iter(urls), "")
    program, host = find_program(address), find_host(address) or "the remote"
    if not program:
        installed_programs = [name for name in _WORDS if shutil.which(name)]
        hint = "They read pull requests on GitHub and GitLab with your login. A branch needs neither: /review BRANCH"
        lack = f"{host} is neither GitHub nor GitLab" if installed_programs else "neither gh nor glab is installed"
        raise CommandRejected(f"the pull request {request} can't be read: {lack}.", hint=hint, code="no_pull_request")
    session.services.trust.check()  # gh and glab run the user's git in the repository
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


async def review_code(session: Session, code: ReviewedCode, prompt: str, context: TurnContext) -> None:
    """Run the review, and emit its findings before the turn ends."""
    emit = context.emit

    def emit_with_findings(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.TurnFinished):
            _report(session, code, context.turn_id, event.reason)
            if back_to := session.state.mode_after_turn:
                emit(ev.ModeChanged(mode=back_to))
        emit(event)

    context.emit = emit_with_findings
    context.cites_other_revision = bool(code.diff.revision)
    if code.cut:
        context.emit(ev.Notice(level="info", message=f"The diff is long: {code.cut:,} characters are left out."))
    await ask_model(context, prompt, PromptSurroundings(), instruction=_render_instruction(code))


def _render_instruction(code: ReviewedCode) -> str:
    diff = code.diff
    return render(
        "code_review",
        subject=diff.subject,
        log=escape_tags(diff.log),
        diff=escape_tags(code.sent_patch),
        cut=f"{code.cut:,}" if code.cut else "",
        left_out=diff.left_out,
        is_on_disk=not diff.revision,
    )


def _report(session: Session, code: ReviewedCode, turn: str, reason: ev.TurnEnd) -> None:
    """Emit the checked findings of the turn; of an interrupted turn, the findings so far if there are any."""
    document_lists = [
        turn_state.list_finished_documents() for turn_state in session.state.turns[-1:] if turn_state.id == turn
    ]
    findings = read_findings(document_lists[0]) if document_lists else []
    if not findings and reason != "done":
        return
    checked_findings = _check_all(build_session_reader(session), code, findings)
    diff = code.diff
    session.emit(
        ev.FindingsReported(turn=turn, subject=diff.subject, findings=checked_findings, revision=diff.revision)
    )


def _check_all(reader: Reader, code: ReviewedCode, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    checked_findings = list[Finding]()
    for finding in findings:
        lines = code.read_lines(finding.path)
        checked_finding = check_anchor(finding, lines, is_whole=False)
        if checked_finding.doubt and not code.diff.revision:  # it may be about an unchanged line
            checked_finding = check_anchor(finding, _read_file(reader, finding.path), is_whole=True)
        checked_findings.append(replace(checked_finding, id=new_id("finding")))
    return tuple(checked_findings)


def _read_file(reader: Reader, path: str) -> dict[int, str]:
    try:
        text = reader.read_bytes(path, MAX_FILE).decode("utf-8", "replace")
    except PathRefused:
        return {}
    return dict(enumerate(text.removesuffix("\n").split("\n"), 1))


def check_anchor(finding: Finding, lines: Mapping[int, str], *, is_whole: bool) -> Finding:
    """Return a finding moved to the lines of its quotation, or marked with a doubt. `lines`: those of its file by
    number, empty if there is no such file; `is_whole`: they are the whole file, not only the lines in a diff."""
    if not finding.path:
        return finding
    claim = QuotedPlace(finding.start, finding.end)
    place = locate_quotation(finding.quote, claim, lines, is_whole=is_whole)
    return replace(finding, start=place.start, end=place.end, doubt=place.doubt)
