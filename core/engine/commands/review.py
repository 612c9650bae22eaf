"""Commands of the review and of commits: verdicts, hunks split, edited and commented, conflicts resolved, and commits.

A protected change and the state of git are accepted only when the user has confirmed exactly that one. Commits of
accepted hunks are made in parallel to turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from core.agent.mentions.sources import PromptSurroundings
from core.edits.text_file import decode_text
from core.engine.commands.plans import complete_resolved_todos
from core.engine.session.hooks import find_hook_refusal
from core.engine.session.pending_changes import select_hunks
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.turns.lifecycle import ask_model, reserve_turn, start_turn
from core.errors import AgentTuiError, CommandRejected, StateError
from core.ids import new_id
from core.modes import Mode
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol import commands as cmd
from core.protocol.documents import Plan
from core.protocol.events import CommentsSent, ModeChanged, MutantDismissed, Notice, ReviewPolicyKept
from core.protocol.evidence import HunkEvidence, Mutant
from core.protocol.renames import format_change_path, list_changes
from core.protocol.review import COMMENTS_TITLE, Bulk, Change, Comment, Origin, Verdict
from core.shadow.content.paths import format_paths
from core.shadow.diff.diff_lines import build_excerpt
from core.shadow.review.verdict_plan import find_hunks, group_changes
from core.text.counting import count
from core.text.markup import choose_fence

MAX_NAMED = 10
MAX_TEXT = 4_000_000
MAX_MESSAGE: Final = 100_000  # characters
_NAME: Final = compile_lazily(r"[\w][\w./+-]{0,200}")


def prepare_policy(session: Session, command: cmd.ReviewPolicyKeep) -> Effect:
    """Save the review policy if it has changed."""

    def save() -> None:
        if command.policy != session.state.review_policy:
            session.emit_outside_turn(ReviewPolicyKept(policy=command.policy))

    return save


def prepare_resolve(session: Session, command: cmd.HunkResolve) -> Effect:
    if not command.path:
        if command.hunks:
            raise CommandRejected("hunks were given without their file.", code="path_missing")
        is_part = command.origin or command.paths
        find = partial(session.bulk_acceptance.find_changes, command.origin, command.paths)
        if is_part and not find():
            subject = "of that origin" if command.origin else "of these files"
            raise CommandRejected(f"nothing {subject} is pending.", code="change_unknown")
        effect = partial(_resolve_all, session, command)
        return _ask_hooks(session, command.verdict, lambda: [change.path for change in find()], effect)
    change = session.review.changes.get(command.path)
    if change is None:
        raise CommandRejected(f"nothing is pending for {command.path}.", code="change_unknown")
    find_hunks(change, command.hunks)
    if command.verdict == "accept":
        changes = (change, *group_changes(session.review.changes, [change]))
        session.shadow.refuse_denied(dict.fromkeys(affected_change.path for affected_change in changes))
        protected_change = next((affected_change for affected_change in changes if affected_change.protected), None)
        if protected_change is not None and not command.confirmed:
            raise _build_unconfirmed(protected_change.path, protected_change.risk)
    return _ask_hooks(session, command.verdict, lambda: [command.path], partial(_resolve_file, session, command))


def _ask_hooks(session: Session, verdict: Verdict, list_paths: Callable[[], list[str]], effect: Effect) -> Effect:
    """Return the effect of a verdict, preceded by the hooks if it is an acceptance."""
    return session.promotion_hooks.guard(list_paths, effect) if verdict == "accept" else effect


def _build_unconfirmed(subject: str, risk: str) -> CommandRejected:
    return CommandRejected(
        f"{subject} {risk or 'is protected'}.",
        hint="It is accepted only by itself, with confirmation.",
        code="confirmation_needed",
    )


def _resolve_file(session: Session, command: cmd.HunkResolve) -> None:
    if command.verdict == "accept":
        session.log.sync()
    with _reporting_errors(session, command.path):
        session.shadow.resolve(command.path, command.hunks, command.verdict, command.reason)
        complete_resolved_todos(session, command.path)


@contextmanager
def _reporting_errors(session: Session, path: str) -> Iterator[None]:
    """Report the error of a verdict with its path, so that a client can show it at the file."""
    try:
        yield
    except StateError:
        raise
    except AgentTuiError as problem:
        session.report_error(problem, path=path)


def _resolve_all(session: Session, command: cmd.HunkResolve) -> None:
    if command.verdict == "accept":
        remaining_paths = session.accept_all(command.origin, command.paths)
    else:
        changes = session.bulk_acceptance.find_changes(command.origin, command.paths)
        remaining_paths = [change.path for change in changes if change.protected]
        for change in changes:
            if not change.protected and change.path in session.review.changes:  # else it was resolved with its rename
                with _reporting_errors(session, change.path):
                    session.shadow.resolve(
                        change.path, select_hunks(change, command.origin) or (), "reject", command.reason
                    )
    still = [
        pending_change
        for pending_change in list_changes(session.review.changes)
        if {pending_change.path, pending_change.renamed_from} & set(remaining_paths)
    ]
    if blocked_changes := [change for change in still if change.protected or change.conflict]:
        session.emit(_build_skipped_notice(blocked_changes))
    bulks = [bulk for bulk in session.review.bulks if not bulk.is_cache and bulk.files + bulk.deleted]
    if bulks and not (command.origin or command.paths):
        session.emit(_build_bulk_notice(bulks))
    complete_resolved_todos(session, "")


def _build_skipped_notice(changes: list[Change]) -> Notice:
    """Build the notice of the changes that a verdict on everything skipped, and why. Failed writes are reported
    before."""
    paths = [f"{format_change_path(change)} ({change.obstacle})" for change in changes]
    count = "1 file was" if len(paths) == 1 else f"{len(paths)} files were"
    message = f"{count} left pending: {format_paths(paths, MAX_NAMED)}."
    return Notice(level="warning", message=message, hint="Decide on these one by one.")


def _build_bulk_notice(bulks: Sequence[Bulk]) -> Notice:
    waiting, ignored_bulks = (
        [bulk for bulk in bulks if bulk.needs_verdict],
        [bulk for bulk in bulks if not bulk.needs_verdict],
    )
    if not waiting:
        files = sum(bulk.files + bulk.deleted for bulk in ignored_bulks)
        hint = "To copy them to your project, use `agent-tui review --accept NAME` or the review's list."
        return Notice(level="info", message=f"Outside the review: {count('file', files)} ignored by git.", hint=hint)
    labels = [f"{bulk.root} ({count('file', bulk.files)})" for bulk in waiting]
    summary = "1 bulk is still pending" if len(waiting) == 1 else f"{len(waiting)} bulks are still pending"
    hint = "Accept or reject each as a whole: in the review's list, or with `agent-tui review --accept NAME`."
    return Notice(level="info", message=f"{summary}: {format_paths(labels, MAX_NAMED)}.", hint=hint)


def prepare_verify(session: Session, command: cmd.ChangesVerify) -> Effect:
    """Run checks again and accept what they prove, in parallel to turns; one verification at a time."""
    if session.is_verifying:
        raise CommandRejected("checks are being run again already.", hint="Wait until they end.", code="is_verifying")
    from core.engine.session.verification import Verifier

    def find_refusal(text: str) -> Awaitable[str | None]:
        return find_hook_refusal(session.hooks, text, new_id("clean"))

    return partial(session.run_in_parallel, Verifier(session, command, find_refusal).run, name="verification")


def prepare_prove(session: Session, command: cmd.ChangesProve) -> Effect:
    """Run the check over variants of the pending changes, in parallel to turns. A proof that runs is stopped first."""
    from core.engine.session.proof import refuse_unready, start_proof

    refuse_unready(session, command)
    return partial(start_proof, session, command)


def prepare_proof_stop(session: Session, _: cmd.ProofStop) -> Effect:
    return session.proof_slot.stop


async def prepare_hunk_test(session: Session, command: cmd.HunkTestRequest) -> Effect:
    """Have the agent write a test that notices a hunk, in a turn in Agent mode."""
    change = session.review.changes.get(command.path)
    if change is None:
        raise CommandRejected(f"nothing is pending for {command.path}.", code="change_unknown")
    [hunk] = find_hunks(change, (command.hunk,))
    old, new = await asyncio.to_thread(session.shadow.read_sides, change)
    evidence = session.review.proof.hunks.get((command.path, command.hunk))
    gap = _find_gap(evidence)
    place = f"{command.path}:{hunk.new_start}"
    excerpt = build_excerpt(change, (hunk,), old, new)
    instruction = render(
        "write_test",
        place=place,
        excerpt=excerpt,
        fence=choose_fence(excerpt),
        gap=gap,
        unnoticed=evidence is not None and evidence.needed in ("old_tests", "unnoticed"),
    )
    prompt = f"Write a test that notices the change of {place}"
    await reserve_turn(session)

    def start() -> None:
        if session.state.mode != Mode.AGENT:
            session.emit_outside_turn(ModeChanged(mode=Mode.AGENT.value))
        surroundings = PromptSurroundings(open_files=(command.path,))
        work = partial(ask_model, prompt=prompt, surroundings=surroundings, instruction=instruction)
        start_turn(session, work, prompt)

    return start


def _find_gap(evidence: HunkEvidence | None) -> Mutant | None:
    """Return the first small change of a hunk that no test notices."""
    mutants = evidence.mutants if evidence is not None else ()
    return next((mutant for mutant in mutants if not mutant.is_noticed), None)


def prepare_mutant_dismissal(session: Session, command: cmd.MutantDismiss) -> Effect:
    """Remember for this project that an unnoticed small change of a hunk is not useful."""
    from core.engine.session.dismissed_mutants import DismissedMutants

    gap = _find_gap(session.review.proof.hunks.get((command.path, command.hunk)))
    if gap is None:
        raise CommandRejected("no unnoticed small change of this hunk is known.", code="no_mutant")

    def dismiss() -> None:
        dismissed = DismissedMutants(session.workspace.root, is_persistent=not session.state.is_private)
        dismissed.add((command.path, gap.old, gap.new))
        session.emit_outside_turn(MutantDismissed(path=command.path, old=gap.old, new=gap.new))

    return dismiss


def prepare_proven_accept(session: Session, _: cmd.ProvenAccept) -> Effect:
    """Accept the hunks that the evidence proves, file by file."""
    hunks = _list_proven(session)
    if not hunks:
        raise CommandRejected("no pending hunk is proven as things are.", code="nothing_proven")
    return session.promotion_hooks.guard(lambda: list(_list_proven(session)), partial(_accept_proven, session))


def _list_proven(session: Session) -> dict[str, tuple[str, ...]]:
    """Return the ids of the proven hunks by path."""
    hunks = dict[str, tuple[str, ...]]()
    for change in list_changes(session.review.changes):
        judgements = [(hunk.id, session.review.proof.judge(change, hunk)) for hunk in change.clean_hunks]
        ids = tuple(name for name, judgement in judgements if judgement is not None and judgement.is_proven)
        if ids and not (change.protected or change.broken or change.conflict or change.operation == "delete"):
            hunks[change.path] = ids
    return hunks


def _accept_proven(session: Session) -> None:
    session.log.sync()
    for path, ids in _list_proven(session).items():
        with _reporting_errors(session, path):
            session.shadow.resolve(path, ids, "accept", "")
            complete_resolved_todos(session, path)


def prepare_undo(session: Session, command: cmd.VerdictUndo) -> Effect:
    standing = [record.id for record in session.review.verdicts]
    if not standing:
        raise CommandRejected("there is no verdict to undo.", code="nothing_to_undo")
    if command.id and command.id not in standing:
        raise CommandRejected(f"there is no verdict {command.id!r} to undo.", code="verdict_unknown")

    def effect() -> None:
        session.log.sync()
        session.shadow.undo(command.id)

    return effect


def prepare_bulk_resolve(session: Session, command: cmd.BulkResolve) -> Effect:
    bulk = next((candidate for candidate in session.review.bulks if candidate.root == command.root), None)
    if bulk is None:
        raise CommandRejected(f"nothing is pending for {command.root} as a whole.", code="bulk_unknown")
    risk = "is the state of git: commits, index and branches" if bulk.kind == "git" else bulk.risk
    if command.verdict == "accept" and risk and not command.confirmed:
        raise _build_unconfirmed(bulk.root, risk)

    async def effect() -> None:
        session.log.sync()
        with _reporting_errors(session, command.root):
            shadow, is_slow = session.shadow, command.verdict == "accept" and bulk.kind == "git"
            ready = await asyncio.to_thread(shadow.bulks.prepare, command.root) if is_slow else None
            record = shadow.resolve_bulk(command.root, command.verdict, ready=ready)
            if len(notes := record.excerpt.split("; ", 1)) > 1:
                session.emit(Notice(level="info", message=f"{command.root} was accepted: {notes[1]}."))

    return _ask_hooks(session, command.verdict, lambda: [command.root], effect)


def prepare_split(session: Session, command: cmd.HunkSplit) -> Effect:
    """Split a hunk. An indivisible hunk is joined with the other parts of a split one, else rejected before the
    effect."""
    rework = session.shadow.hunk_edits
    try:
        rework.divide(command.path, command.hunk, command.line)
    except CommandRejected as refusal:
        is_part = bool(session.review.find_joinable(command.path, command.hunk))
        if command.line or refusal.code != "not_divisible" or not is_part:
            raise
        return partial(rework.join, command.path, command.hunk)
    return partial(rework.split, command.path, command.hunk, command.line)


def prepare_join(session: Session, command: cmd.HunkJoin) -> Effect:
    rework = session.shadow.hunk_edits
    rework.find_joinable(command.path, command.hunk)
    return partial(rework.join, command.path, command.hunk)


def prepare_edit(session: Session, command: cmd.HunkEdit) -> Effect:
    rework = session.shadow.hunk_edits
    rework.find_hunk(command.path, command.hunk)
    _check_length(command.text)
    return partial(rework.edit, command.path, command.hunk, command.text)


def prepare_comment(session: Session, command: cmd.HunkComment) -> Effect:
    """Comment a hunk; without a text, remove the comment, even of a hunk that no longer exists."""
    rework = session.shadow.hunk_edits
    if command.text.strip():
        rework.find_hunk(command.path, command.hunk)
    _check_length(command.text)
    return partial(rework.comment, command.path, command.hunk, command.text)


def _check_length(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise CommandRejected(f"the text has {len(text):,} characters.", code="text_too_long")


def prepare_conflict_resolve(session: Session, command: cmd.ConflictResolve) -> Effect:
    change = session.review.changes.get(command.path)
    if change is None or not change.conflict:
        raise CommandRejected(f"{command.path} is in no conflict.", code="no_conflict")

    def effect() -> None:
        session.shadow.conflicts.resolve(command.path, command.choices, command.mine, command.theirs)
        complete_resolved_todos(session, command.path)

    return _ask_hooks(session, "accept", lambda: [command.path], effect)


async def prepare_comments_send(session: Session, command: cmd.CommentsSend) -> Effect:
    """Send all comments as one message: the prompt of a new turn, or a steer of the running one."""
    comments = list(session.review.comments.values())
    if not comments:
        raise CommandRejected(
            "there is no comment to send.", hint="Comment on a hunk or on lines of the plan first.", code="no_comment"
        )
    text = format_comments(comments, command.note, session.state.plans)
    if session.turn_slot.is_running:

        def steer() -> None:
            session.steer(text)
            session.emit(CommentsSent())

        return steer
    await reserve_turn(session)

    def start() -> None:
        paths = tuple({comment.path: None for comment in comments})
        start_turn(session, partial(ask_model, prompt=text, surroundings=PromptSurroundings(open_files=paths)), text)
        session.emit(CommentsSent())

    return start


def format_comments(comments: Sequence[Comment], note: str = "", plans: Mapping[str, Plan] | None = None) -> str:
    """Format comments with path, lines and excerpt, in the order of the files. `plans`: the present plans by path, in
    which commented lines may have moved or disappeared."""
    sorted_comments = sorted(comments, key=lambda comment: (comment.path, comment.start))
    quotations = [_quote_comment(comment, (plans or {}).get(comment.path)) for comment in sorted_comments]
    return render(
        "review_comments", comments=quotations, heading=_format_heading(sorted_comments), note=note.strip()
    ).strip()


def _format_heading(comments: Sequence[Comment]) -> str:
    on_plans = {comment.on_plan for comment in comments}
    location = "the plan" if on_plans == {True} else "your pending changes"
    return f"{COMMENTS_TITLE} {location}{' and the plan' if len(on_plans) > 1 else ''}"


def _quote_comment(comment: Comment, plan: Plan | None) -> dict[str, str]:
    start = comment.find_line(plan.body) if comment.on_plan and plan else comment.start
    last = start + max(comment.lines, 1) - 1
    lines = f"line {start}" if last == start else f"lines {start}-{last}"
    if comment.on_plan:
        lines = f"{lines} of the plan's text" if start else "on lines of the plan's text that have changed since"
    return {
        "path": comment.path,
        "lines": lines,
        "language": "markdown" if comment.on_plan else "diff",
        "excerpt": comment.excerpt,
        "fence": choose_fence(comment.excerpt),
        "text": comment.text,
    }


def prepare_symbol_rename(session: Session, command: cmd.SymbolRename) -> Effect:
    if not session.languages.texts.exists(command.path):
        raise CommandRejected(f"{command.path} does not exist.", code="file_not_found")
    return partial(_rename_symbol, session, command)


async def _rename_symbol(session: Session, command: cmd.SymbolRename) -> None:
    from core.lsp.questions import NamePosition, plan_rename

    name_position = NamePosition(path=command.path, line=command.line, column=command.column)
    texts = await plan_rename(session.languages, name_position, command.new_name)
    for path, text in texts.items():
        file = decode_text(session.shadow.read_existing(path))
        if file is not None:
            session.shadow.edit(path, file.encode(text), Origin(tool="rename_symbol"))
    count = "1 file" if len(texts) == 1 else f"{len(texts)} files"
    session.emit(Notice(level="info", message=f"Renamed to {command.new_name} in {count}; pending review."))


async def prepare_commit_draft(session: Session, command: cmd.CommitDraft) -> Effect:
    """Have a model write the messages, in the session's turn."""
    _check_edits(command.groups)
    from core.engine.commits.drafting import draft_messages

    await reserve_turn(session)
    return partial(start_turn, session, partial(draft_messages, session, groups=command.groups), None)


async def prepare_commit_sort(session: Session, command: cmd.CommitSort) -> Effect:
    """Have a model sort the edits, in the session's turn."""
    _check_edits([command.edits])
    from core.engine.commits.drafting import sort_edits

    await reserve_turn(session)
    return partial(start_turn, session, partial(sort_edits, session, ids=command.edits), None)


async def prepare_commit(session: Session, command: cmd.CommitMake) -> Effect:
    """Check trust, messages and edits; the commits are made in parallel to turns."""
    await asyncio.to_thread(session.services.trust.check_commit)
    _check_edits([commit.edits for commit in command.commits])
    for commit in command.commits:
        if not commit.message.strip():
            raise CommandRejected("a commit needs a message.", hint="Write one.", code="message_empty")
        if "\0" in commit.message or len(commit.message) > MAX_MESSAGE:
            raise CommandRejected("the message is too long, or holds a NUL character.", code="message_invalid")
    from core.engine.commits.making import make_commits

    return partial(session.run_in_parallel, partial(make_commits, session, command), name="commit")


async def prepare_pull_request_draft(session: Session, _: cmd.PullRequestDraft) -> Effect:
    """Have a model write title and text, in the session's turn."""
    from core.engine.commits.pull_request import draft_pull_request

    await reserve_turn(session)
    return partial(start_turn, session, partial(draft_pull_request, session), None)


def prepare_pull_request(session: Session, command: cmd.PullRequestOpen) -> Effect:
    """Check trust and the names; the branch is pushed in parallel to turns."""
    session.services.trust.check()
    for kind, name in (("branch", command.branch), ("remote", command.remote), ("base", command.base or "main")):
        if not _NAME.fullmatch(name) or ".." in name:
            raise CommandRejected(
                f"{name!r} is not a valid name for a {kind}.",
                hint="Use letters, digits, - _ . /",
                code="name_invalid",
            )
    if not command.title.strip() or "\0" in command.title + command.body:
        raise CommandRejected("the pull request needs a title.", hint="Write one.", code="message_empty")
    from core.engine.commits.pull_request import open_pull_request

    return partial(session.run_in_parallel, partial(open_pull_request, session, command), name="pull request")


def _check_edits(groups: Sequence[Sequence[str]]) -> None:
    ids = [edit_id for group in groups for edit_id in group]
    if not ids or len(set(ids)) != len(ids):
        raise CommandRejected(
            "each commit needs accepted edits, and an edit goes into one commit only.",
            hint="See them again: /commit",
            code="edits_invalid",
        )
