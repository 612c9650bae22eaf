"""`agent-tui review`: print pending changes as a unified diff, or give verdicts on them.

Names and lines come from commands and models, so control characters in them are escaped.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar, Literal

from core.arguments import Arguments, Front
from core.cli.box import find_box_session, format_bulk
from core.cli.parsing import Parser, add_directory, build_parser, parse_count, parse_directory
from core.cli.print_mode.printer import format_rename
from core.cli.review_output import (
    LINE_END_SIGNS,
    LineForms,
    build_findings_review,
    build_github_review,
    collect_errors,
    format_left,
    format_unknown,
    has_marks,
    is_plain,
    list_left,
    render_body,
    render_git_preview,
    render_links,
    render_outside,
    render_remarks,
)
from core.cli.streams import read_input, write_json
from core.engine import EngineOptions
from core.errors import CommandRejected
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client
from core.protocol.named_verdicts import build_named_verdict, clean_name
from core.protocol.paths import is_named_by
from core.protocol.renames import format_change_path, group_renames, list_changes, select_named
from core.protocol.review import Bulk, Change, ChangeDiff, Verdict
from core.sessions.listing import list_sessions
from core.sessions.store import SessionStore
from core.shadow.content.blob_store import BlobStore
from core.state.session import SessionState
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_full_line
from core.transports.session_client import SessionView, open_to_read, require_ack, resume_session

REVIEW_USAGE = """\
agent-tui review [DIR] [--print] [--accept all | PATH ...] [--reject all | PATH ...]
       agent-tui review [DIR] --take N
       agent-tui review [DIR] [--findings] --format github --pr-diff FILE --commit SHA"""

REVIEW_TEXT = """\
Show the changes pending review in DIR: those of `agent-tui box run --keep`, or of
the last session that has any. In a terminal this opens the screen on the review;
with --print, or when the output is not a terminal, it prints one unified diff,
with everything else in lines that start with #.

--format github prints a pull request review, with each hunk inside the pull
request's diff as a suggestion: see agent-tui help headless. --findings shows what
the last `/review` found, as text or in that format."""

REVIEW_CODES = """\
exit codes:
  0   done (also when nothing is pending)
  1   failed; the message says why
  2   wrong arguments
  4   something was left pending, with the reason for each path: in conflict, protected
      (accepted only by name), not pending, could not be written"""


NO_FINDINGS = "the last session has no code review."
REVIEW_HINT = "`agent-tui -p /review` makes one."
NOTHING = "nothing pending review.\n"
AS_A_WHOLE = "accepted as a whole, by name"
_LOOKED_AT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewArguments(Arguments):
    """`paths` get the `verdict`. Without a verdict, pending changes are shown: on the screen, or with `print_only` as
    text. `take`: the number of the candidate to put under review, None = no candidate. `pull_diff`, `commit`: the
    unified diff of a pull request and its last commit, for `format` "github". `findings`: print those of the last code
    review instead."""

    front: ClassVar[Front] = "review"
    paths: tuple[str, ...] = ()
    verdict: Literal["", "accept", "reject"] = ""
    print_only: bool = False
    take: int | None = None
    format: Literal["text", "github"] = "text"
    pull_diff: str = ""
    commit: str = ""
    findings: bool = False


def parse(argv: Sequence[str]) -> ReviewArguments:
    """Parse the arguments of `agent-tui review`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui review", REVIEW_USAGE, REVIEW_TEXT, REVIEW_CODES)
    add_directory(parser)
    parser.add_argument("--print", dest="print_only", action="store_true", help="print instead of opening the screen")
    exclusive_group = parser.add_mutually_exclusive_group()
    exclusive_group.add_argument(
        "--accept",
        nargs="+",
        metavar="PATH",
        help="write these to the project: files, directories, patterns, or `all`; protected ones only by name",
    )
    exclusive_group.add_argument("--reject", nargs="+", metavar="PATH", help="drop these, named likewise")
    exclusive_group.add_argument(
        "--take", type=parse_count, metavar="N", help="make candidate N of the last session pending"
    )
    exclusive_group.add_argument("--findings", action="store_true", help="print the findings of the last code review")
    parser.add_argument("--format", choices=("text", "github"), default="text", help="print as a diff, or as a review")
    parser.add_argument("--pr-diff", metavar="FILE", help="github: the pull request's diff; - is standard input")
    parser.add_argument("--commit", metavar="SHA", help="github: the reviewed commit")
    args = parser.parse_intermixed_args(argv)
    is_github = args.format == "github"
    if is_github != bool(args.pr_diff and args.commit) or (is_github and (args.accept or args.reject or args.take)):
        parser.error("--format github needs --pr-diff FILE and --commit SHA, and only prints")
    verdict: Literal["", "accept", "reject"] = "accept" if args.accept else "reject" if args.reject else ""
    return ReviewArguments(
        directory=parse_directory(args.words, parser),
        paths=tuple(args.accept or args.reject or ()),
        verdict=verdict,
        print_only=args.print_only or bool(verdict) or args.take is not None or is_github or args.findings,
        take=args.take,
        format=args.format,
        pull_diff=_read_diff(args.pr_diff, parser) if is_github else "",
        commit=args.commit or "",
        findings=args.findings,
    )


def _read_diff(name: str, parser: Parser) -> str:
    try:
        data = read_input(sys.stdin.buffer) if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        parser.error(f"the diff can't be read: {problem}")
    return data.decode("utf-8", "replace")


def find_session_to_review(directory: Path) -> str:
    """Return the session of `box run --keep`, else the latest one with pending changes, else with ignored files; "" =
    none."""
    store = SessionStore(directory)
    box_session = find_box_session(store)
    sessions = list_sessions(store, limit=_LOOKED_AT)
    waiting = [session.id for session in sessions if session.pending]
    if box_session and (box_session in waiting or not waiting):
        return box_session
    other_ids = [session.id for session in sessions if session.kept]
    return (waiting or other_ids or [""])[0]


def run(arguments: ReviewArguments) -> int:
    """Print pending changes, or give verdicts. Returns `ExitCode.REFUSED` if something named is still pending."""
    return asyncio.run(_run(arguments))


async def _run(arguments: ReviewArguments) -> int:
    is_taking = arguments.take is not None
    store = SessionStore(arguments.directory)
    is_latest = is_taking or arguments.findings
    session = store.find_latest() if is_latest else find_session_to_review(arguments.directory)
    if not session and arguments.findings:
        raise CommandRejected(NO_FINDINGS, hint=REVIEW_HINT, code="no_code_review")
    if not session:
        sys.stdout.write("there is no session with candidates.\n" if is_taking else NOTHING)
        unknown = [path for path in arguments.paths if path != "all"]
        for name in unknown:
            _print_notice(format_unknown(name))
        return ExitCode.FAILED if is_taking else ExitCode.REFUSED if unknown else ExitCode.DONE
    options = EngineOptions(interactive=False, watch=False, preload=False, private=False)
    open_client = resume_session if arguments.verdict or is_taking else open_to_read
    engine = await open_client(arguments.directory, session, options)
    events: list[ev.AnyEvent] = []
    view = SessionView(engine, session, lambda envelope: events.append(envelope.event))
    try:
        await view.settle()
        if arguments.take is not None:
            return await _CandidateTaker(engine, view, events).take(arguments.take)
        if arguments.verdict:
            return await _Verdicts(engine, view, arguments, events).give()
        if arguments.findings:
            _print_findings(view.state, arguments)
            return ExitCode.DONE
        if arguments.format == "github":
            await _print_github(engine, view.state, arguments)
            return ExitCode.DONE
        await _print(engine, view.state, BlobStore(store.get_path(session) / "blobs"))
        return ExitCode.DONE
    finally:
        await view.close()
        await engine.close()


@dataclass
class _CandidateTaker:
    """Takes a candidate with the command that the screen sends, too. `events`: the events of the session so far."""

    _engine: Client
    _view: SessionView
    _events: list[ev.AnyEvent]

    async def take(self, number: int) -> int:
        session = self._view.state.session_id
        answer = await self._engine.query(q.CandidatesQuery(session=session))
        candidates = answer.candidates if isinstance(answer, q.CandidatesAnswer) else ()
        if not 1 <= number <= len(candidates) or candidates[number - 1].state != "ended":
            numbers = [str(position) for position, candidate in enumerate(candidates, 1) if candidate.state == "ended"]
            hint = f"Available: {', '.join(numbers)}." if numbers else "`agent-tui -p PROMPT --best 3` makes some."
            raise CommandRejected(f"there is no candidate {number}.", hint=hint, code="candidate_unknown")
        choice, start = candidates[number - 1], len(self._events)
        if not choice.changes:
            raise CommandRejected(f"candidate {number} changed nothing.", hint=choice.message, code="nothing_changed")
        require_ack(await self._engine.submit(cmd.BestTake(session=session, picks=(cmd.CandidatePick(id=choice.id),))))
        await self._view.settle()
        if (check := choice.check) is not None:
            await self._view.wait_until(
                lambda: any(_ends_check(check.command, event) for event in self._events[start:])
            )
        return self._report(self._events[start:])

    def _report(self, events: Sequence[ev.AnyEvent]) -> int:
        has_conflicts, has_failed = False, False
        for event in events:
            match event:
                case ev.SubagentMerged(paths=paths, conflicts=conflicts):
                    for path in paths:
                        _print_notice(f"taken     {display_name(path)}{' (in conflict)' if path in conflicts else ''}")
                    has_conflicts = has_conflicts or bool(conflicts)
                case ev.CommandRan(command=command, exit_code=code):
                    _print_notice(f"{'passed' if code == 0 else 'failed':<10}{to_one_line(command)}")
                case ev.ErrorRaised(message=message):
                    has_failed = True
                    _print_notice(f"agent-tui: {to_one_line(message)}")
                case _:
                    pass
        return ExitCode.FAILED if has_failed else ExitCode.REFUSED if has_conflicts else ExitCode.DONE


def _ends_check(command: str, event: ev.AnyEvent) -> bool:
    """Return True if an event reports the end of the candidate's check, or that it can't run. Other notices may come
    first."""
    match event:
        case ev.CommandRan():
            return event.command == command
        case ev.Notice():
            return event.hint.endswith(f"!{command}")
        case _:
            return isinstance(event, ev.ErrorRaised)


def _is_over(command: cmd.HunkResolve, resolved_paths: Set[str]) -> bool:
    """Return True if everything that a command names has its verdict already."""
    named_paths = set(command.paths or (command.path,)) - {""}
    return bool(named_paths) and named_paths <= resolved_paths


@dataclass
class _Verdicts:
    """Gives verdicts on what the command line names, with the commands that the screen sends, too. `events`: the events
    of the session so far."""

    _engine: Client
    _view: SessionView
    _arguments: ReviewArguments
    _events: list[ev.AnyEvent]
    _left: int = 0

    @property
    def _session(self) -> str:
        return self._view.state.session_id

    async def give(self) -> int:
        state = self._view.state
        before, rows, bulks = dict(state.changes), list_changes(state.changes), state.review.bulks
        start = len(self._events)
        for name in self._arguments.paths:
            command = build_named_verdict(self._relate(name), self._verdict, before, bulks, session=self._session)
            if isinstance(command, cmd.HunkResolve) and _is_over(command, before.keys() - state.changes.keys()):
                continue  # the verdict on its rename, or on an earlier name, covers it
            reply = await self._engine.submit(command)
            if isinstance(reply, cmd.Reject):
                self._left += 1
                _print_notice(
                    format_unknown(command.path)
                    if isinstance(command, cmd.HunkResolve) and reply.code == "change_unknown"
                    else f"agent-tui: {reply.message} {reply.hint}".rstrip()
                )
            await self._view.settle()
        verb = "accepted" if self._arguments.verdict == "accept" else "rejected"
        resolved_paths = [
            format_change_path(change)
            for change in rows
            if not {change.path, change.renamed_from} & state.changes.keys()
        ]
        still = {bulk.root for bulk in state.review.bulks}
        for path in sorted([*resolved_paths, *(display_name(bulk.root) for bulk in bulks if bulk.root not in still)]):
            _print_notice(f"{verb}  {path}")
        targets, errors = self._list_targets(rows, bulks), collect_errors(self._events[start:])
        leftovers = list_left(state.changes, tuple(targets), errors, self._verdict)
        for bulk in state.review.bulks:
            if bulk.root in targets:
                reason = errors.get(bulk.root) or await self._explain_bulk(bulk) or AS_A_WHOLE
                leftovers.append((display_name(bulk.root), reason))
        for path, reason in leftovers:
            _print_notice(format_left(path, reason))
        if "" in errors and not any(errors[""] in reason for _, reason in leftovers):
            self._left += 1
            _print_notice(f"agent-tui: {errors['']}")
        return ExitCode.REFUSED if leftovers or self._left else ExitCode.DONE

    async def _explain_bulk(self, bulk: Bulk) -> str:
        if bulk.kind == "git" and self._arguments.verdict == "accept":
            answer = await self._engine.query(q.GitPreviewQuery(session=self._session, root=bulk.root))
            return (answer.preview.refused if isinstance(answer, q.GitPreviewAnswer) else "") or bulk.conflict
        return bulk.conflict

    def _list_targets(self, rows: Sequence[Change], bulks: Sequence[Bulk]) -> set[str]:
        """Return all that is named, by itself, by a directory above it or by a pattern. A bulk is accepted by itself
        alone, but one that needs a verdict counts as left."""
        names = {self._relate(name) for name in self._arguments.paths}
        named_changes = (change.path for change in select_named(rows, [*names]))
        waiting = (bulk.root for bulk in bulks if bulk.needs_verdict)
        named_bulks = (root for root in waiting if "all" in names or any(is_named_by(root, name) for name in names))
        return {*names, *named_changes, *named_bulks}

    @property
    def _verdict(self) -> Verdict:
        return "accept" if self._arguments.verdict == "accept" else "reject"

    def _relate(self, name: str) -> str:
        path = Path(name)
        if path.is_absolute() and path.is_relative_to(self._arguments.directory):
            return path.relative_to(self._arguments.directory).as_posix()
        return clean_name(path.as_posix())


def _print_findings(state: SessionState, arguments: ReviewArguments) -> None:
    """Print the findings of the session's last code review that are not dismissed."""
    review = state.review.code_review
    if review is None:
        raise CommandRejected(NO_FINDINGS, hint=REVIEW_HINT, code="no_code_review")
    findings = [finding for finding in review.findings if review.get_standing(finding.id).standing != "dismissed"]
    if arguments.format == "github":
        body = build_findings_review(findings, arguments.pull_diff, arguments.commit)
        write_json(json.dumps(body, ensure_ascii=False, indent=2))
        return
    for finding in findings:
        location = f"{display_name(finding.path)}:{finding.start}: " if finding.path else ""
        doubt = f" ({finding.doubt})" if finding.doubt else ""
        sys.stdout.write(f"{location}{finding.severity}: {to_one_line(finding.title)}{doubt}\n")


async def _print_github(engine: Client, state: SessionState, arguments: ReviewArguments) -> None:
    """Print the body of a review of the pull request; prints nothing if nothing is pending."""
    diffs = []
    for change in list_changes(state.changes):
        answer = await engine.query(q.DiffQuery(session=state.session_id, path=change.path, width=0))
        if isinstance(answer, q.DiffAnswer) and answer.diff is not None:
            diffs.append(answer.diff)
    if not diffs:
        _print_notice(NOTHING)
        return
    review = build_github_review(diffs, arguments.pull_diff, arguments.commit)
    write_json(json.dumps(review, ensure_ascii=False, indent=2))


async def _print(engine: Client, state: SessionState, blobs: BlobStore) -> None:
    session = state.session_id
    bulks = state.review.bulks
    if not state.changes and not bulks:
        sys.stdout.write(NOTHING)
        return
    if not state.changes and not any(bulk.needs_verdict for bulk in bulks):
        sys.stdout.write(f"# {NOTHING}")
    waiting = list_changes(state.changes)
    sys.stdout.writelines(f"# {format_rename(group)}\n" for group in group_renames(waiting))
    for change in waiting:
        path = change.path
        answer = await engine.query(q.DiffQuery(session=session, path=path, width=0))
        if isinstance(answer, q.DiffAnswer) and answer.diff is not None:
            await _print_change(engine, session, answer.diff, blobs)
        else:
            sys.stdout.write(f"# {display_name(path)}: {change.operation}\n")
    for bulk in bulks:
        sys.stdout.write(f"# {format_bulk(bulk, display_name(bulk.root))}\n")
        if bulk.kind == "git":
            preview_answer = await engine.query(q.GitPreviewQuery(session=session, root=bulk.root))
            for line in (
                render_git_preview(preview_answer.preview) if isinstance(preview_answer, q.GitPreviewAnswer) else ()
            ):
                sys.stdout.write(f"#   {to_one_line(line)}\n")


async def _print_change(engine: Client, session: str, diff: ChangeDiff, blobs: BlobStore) -> None:
    """Print a change: for a person with invisible characters marked, for a program as a patch that git applies."""
    change = diff.change
    lines = render_remarks(diff)
    patch = b""
    if sys.stdout.isatty():
        lines = chain(
            lines, render_body(diff, LineForms(expose_full_line, LINE_END_SIGNS)), render_links(change, blobs)
        )
    elif has_marks(diff):
        lines = chain(lines, render_outside(diff))
    elif change.binary or change.pending.kind == "symlink" or is_plain(change, blobs):
        lines = chain(lines, render_body(diff), render_links(change, blobs))
    else:
        paths = tuple(path for path in (change.renamed_from, change.path) if path)
        answer = await engine.query(q.PatchQuery(session=session, paths=paths))
        patch = answer.patch if isinstance(answer, q.PatchAnswer) else b""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
    sys.stdout.buffer.write(patch)


def _print_notice(text: str) -> None:
    sys.stderr.write(f"{to_one_line(text)}\n")
