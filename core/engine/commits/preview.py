"""The preview of a session's next commits: the accepted edits of each, and a message written without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from core.engine.commits.basis import CommitBasis, open_basis
from core.engine.commits.patch import is_selected
from core.engine.session.pending_changes import ReviewedSession
from core.errors import AgentTuiError
from core.git.tree_entries import count_staged
from core.patterns import compile_lazily
from core.protocol import queries as q
from core.protocol.review import COMMENTS_TITLE
from core.shadow.commits.commit_content import CommitContent
from core.shadow.commits.path_version import AcceptedEdit, PathVersion
from core.shadow.diff.hunks import compare_texts
from core.state.proof_text import describe_accepted
from core.state.receipt import describe_checks
from core.state.session import SessionState

MAX_SUBJECT: Final = 72  # characters
_NOTHING: Final = "nothing that was accepted{} is waiting for a commit."
_SENTENCE_END: Final = compile_lazily(r"[.!?](?:\s|$)|\n")


def build_preview(session: ReviewedSession, query: q.CommitQuery) -> q.CommitAnswer:
    """Return the groups that can be committed, or why there are none. Slow: call it in a thread. Never raises."""
    try:
        with open_basis(session) as basis:
            return _describe_basis(session.state, basis, query)
    except AgentTuiError as problem:
        return q.CommitAnswer(refused=problem.message, hint=problem.hint)


def _describe_basis(state: SessionState, basis: CommitBasis, query: q.CommitQuery) -> q.CommitAnswer:
    contents = [content for content in basis.compute() if is_selected(content.path, query.paths)]
    left_out = {content.path for content in contents if content.problem}
    open_paths = {content.path for content in contents} - left_out
    groups = list(_list_groups(state, basis, [edit for edit in basis.edits if edit.path in open_paths], query))
    return q.CommitAnswer(
        branch=basis.head.branch,
        head=basis.head.commit,
        refused="" if groups else _NOTHING.format(f" below {', '.join(query.paths)}" if query.paths else ""),
        hint="" if groups else "Accept hunks in the review first.",
        groups=tuple(groups),
        left_out=tuple(describe_content(content) for content in contents if content.problem),
        hooks=tuple(basis.hooks),
        staged=count_staged(basis.repository, basis.head.commit),
    )


def _list_groups(
    state: SessionState, basis: CommitBasis, edits: Sequence[AcceptedEdit], query: q.CommitQuery
) -> Iterator[q.CommitGroup]:
    """Yield the groups in the order of their first edits, with their files relative to the groups before."""
    before: dict[str, PathVersion] = {}
    cumulative_edits: list[AcceptedEdit] = []
    for key, group_edits in _sort_into_groups(basis, edits, query).items():
        cumulative_edits += group_edits
        group_paths = {accepted_edit.path for accepted_edit in group_edits}
        contents = [content for content in basis.compute(cumulative_edits) if content.path in group_paths]
        files = tuple(describe_content(content, before.get(content.path)) for content in contents)
        before |= {content.path: content.after for content in contents}
        if files:
            yield build_group(state, key if query.split == "topic" else _find_title(state, key), group_edits, files)


def find_asking_turns(state: SessionState) -> dict[str, str]:
    """Map turns to the turn whose prompt asked for its work: for a turn that only sent comments, the one before."""
    askers, last = dict[str, str](), ""
    for turn in sorted((*state.turns, *state.left_turns.values()), key=lambda turn_state: turn_state.seq):
        if not last or COMMENTS_TITLE not in turn.prompt:
            last = turn.id
        askers[turn.id] = last
    return askers


def _sort_into_groups(
    basis: CommitBasis, edits: Sequence[AcceptedEdit], query: q.CommitQuery
) -> dict[str, list[AcceptedEdit]]:
    """Sort the edits by todo, prompt or topic. Edits of a path that can't be committed separately stay together, in the
    last group."""
    topics = {edit: topic.title for topic in query.topics for edit in topic.edits}
    keys = {
        accepted_edit.id: {
            "none": "",
            "todo": accepted_edit.todo,
            "prompt": accepted_edit.turn,
            "topic": topics.get(accepted_edit.id, ""),
        }[query.split]
        for accepted_edit in edits
    }
    while True:
        groups: dict[str, list[AcceptedEdit]] = {}
        for accepted_edit in edits:
            groups.setdefault(keys[accepted_edit.id], []).append(accepted_edit)
        clashing = _find_clash(basis, list(groups.values()))
        if not clashing:
            return groups
        last = [keys[accepted_edit.id] for accepted_edit in edits if accepted_edit.path == clashing][-1]
        keys |= {accepted_edit.id: last for accepted_edit in edits if accepted_edit.path == clashing}


def _find_clash(basis: CommitBasis, groups: Sequence[Sequence[AcceptedEdit]]) -> str:
    """Return a path with edits that can't be committed in this order, "" = there is none."""
    cumulative_edits: list[AcceptedEdit] = []
    for group_edits in groups[:-1]:
        cumulative_edits += group_edits
        for content in basis.compute(cumulative_edits):
            if content.problem and len({id(group) for group in groups for e in group if e.path == content.path}) > 1:
                return content.path
    return ""


def _find_title(state: SessionState, key: str) -> str:
    """Return the text of a todo, or the prompt of a turn, "" = there is none."""
    prompts, todos = list_prompts(state), {todo.id: todo.content for todo in state.todos}
    asker = find_asking_turns(state).get(key, key)
    return f"Follow comments: {prompts[asker]}" if asker != key else todos.get(key) or prompts.get(key, "")


def list_prompts(state: SessionState) -> dict[str, str]:
    """Return the prompts of all turns by their ids."""
    return {turn.id: turn.request for turn in (*state.turns, *state.left_turns.values())}


def build_group(
    state: SessionState, title: str, edits: Sequence[AcceptedEdit], files: tuple[q.CommitFile, ...]
) -> q.CommitGroup:
    """Build the group of a commit of these edits. `title`: their subject, "" = the prompts' one."""
    texts = {todo.id: todo.content for todo in state.todos}
    prompts, askers = list_prompts(state), find_asking_turns(state)
    todos = tuple(dict.fromkeys(texts[edit.todo] for edit in edits if edit.todo in texts))
    turns = dict.fromkeys(askers.get(edit.turn, edit.turn) for edit in edits)
    turn_prompts = tuple(prompts[turn] for turn in turns if prompts.get(turn))
    checks = _list_checks(state, edits)
    return q.CommitGroup(
        title=title,
        edits=tuple(edit.id for edit in edits),
        files=files,
        message=write_message(title, turn_prompts, todos, checks),
        prompts=turn_prompts,
        todos=todos,
        checks=checks,
    )


def _list_checks(state: SessionState, edits: Sequence[AcceptedEdit]) -> tuple[str, ...]:
    """Return the commands that had passed over the edits when these were accepted, with the number of tests."""
    verdicts = {verdict.id: verdict for verdict in state.review.verdicts}
    verdict_records = (verdicts.get(edit.id.partition(".")[0]) for edit in edits)
    checks = (
        verdict_record.check
        for verdict_record in verdict_records
        if verdict_record is not None and verdict_record.check is not None
    )
    described = describe_checks(state, [check.command for check in checks if check.has_passed])
    ids = {edit.id.partition(".")[0] for edit in edits}
    evidence = describe_accepted(state.review.proof, [verdicts[name] for name in ids if name in verdicts])
    return (*described, *([f"hunk by hunk ({evidence})"] if evidence else []))


def write_message(title: str, prompts: Sequence[str], todos: Sequence[str], checks: Sequence[str]) -> str:
    """Write a commit message: a subject, the todos, and the checks."""
    subject = title or (todos[0] if len(todos) == 1 else "") or (prompts[0] if prompts else "") or "Accepted changes"
    parts = [_shorten_subject(subject)]
    if len(todos) > 1:
        parts.append("\n".join(f"- {' '.join(todo.split())}" for todo in todos))
    if checks:
        parts.append(f"Checked by: {', '.join(' '.join(check.split()) for check in checks)}")
    return "\n\n".join(parts) + "\n"


def _shorten_subject(text: str) -> str:
    """Return the first sentence of a text, cut at a word."""
    first = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
    line = " ".join(first.split())
    if len(line) > MAX_SUBJECT:
        line = line[: MAX_SUBJECT - 1].rpartition(" ")[0] or line[: MAX_SUBJECT - 1]
        line += "…"
    return line[:1].upper() + line[1:]


def describe_content(content: CommitContent, before: PathVersion | None = None) -> q.CommitFile:
    """Describe the change of one path in a commit. `before`: its version in the commit before, None = in HEAD."""
    old = before or content.head
    hunks = compare_texts(old.data, content.after.data)
    is_gone = content.after.kind == "absent"
    return q.CommitFile(
        path=content.path,
        operation="create" if old.kind == "absent" else "delete" if is_gone else "edit",
        added=sum(hunk.new_lines for hunk in hunks),
        removed=sum(hunk.old_lines for hunk in hunks),
        problem=content.problem,
    )
