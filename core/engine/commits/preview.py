"""The preview of a session's next commits: which accepted edits go into which, and a message made without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from core.engine.commits.basis import CommitBasis, open_basis
from core.engine.commits.patch import is_meant
from core.engine.session.session import Session
from core.errors import AgentTuiError
from core.git.tree_entries import count_staged
from core.protocol import queries as q
from core.protocol.review import COMMENTS_TITLE
from core.shadow.commits.commit_content import CommitContent
from core.shadow.commits.path_version import AcceptedEdit, PathVersion
from core.shadow.diff.hunks import compare_texts
from core.state.receipt import describe_checks
from core.state.session import SessionState

MAX_SUBJECT: Final = 72  # characters
_NOTHING: Final = "nothing that was accepted{} waits for a commit."
_SENTENCE_END: Final = re.compile(r"[.!?](?:\s|$)|\n")


def build_preview(session: Session, query: q.CommitQuery) -> q.CommitAnswer:
    """Return what can be committed; slow, for a thread. Raises nothing: why nothing can be is part of the answer."""
    try:
        with open_basis(session) as basis:
            return _describe_basis(session.state, basis, query)
    except AgentTuiError as problem:
        return q.CommitAnswer(refused=problem.message, hint=problem.hint)


def _describe_basis(state: SessionState, basis: CommitBasis, query: q.CommitQuery) -> q.CommitAnswer:
    contents = [each for each in basis.compute() if is_meant(each.path, query.paths)]
    left_out = {each.path for each in contents if each.problem}
    open_paths = {each.path for each in contents} - left_out
    groups = list(_list_groups(state, basis, [each for each in basis.edits if each.path in open_paths], query))
    return q.CommitAnswer(
        branch=basis.head.branch,
        head=basis.head.commit,
        refused="" if groups else _NOTHING.format(f" below {', '.join(query.paths)}" if query.paths else ""),
        hint="" if groups else "Accept hunks in the review first.",
        groups=tuple(groups),
        left_out=tuple(describe_content(each) for each in contents if each.problem),
        hooks=tuple(basis.hooks),
        staged=count_staged(basis.repository, basis.head.commit),
    )


def _list_groups(
    state: SessionState, basis: CommitBasis, edits: Sequence[AcceptedEdit], query: q.CommitQuery
) -> Iterator[q.CommitGroup]:
    """Yield the groups in the order of their first edits; the files of each as they change with those before it."""
    before: dict[str, PathVersion] = {}
    done: list[AcceptedEdit] = []
    for key, own in _sort_into_groups(basis, edits, query).items():
        done += own
        touched = {each.path for each in own}
        contents = [each for each in basis.compute(done) if each.path in touched]
        files = tuple(describe_content(each, before.get(each.path)) for each in contents)
        before |= {each.path: each.after for each in contents}
        if files:
            yield build_group(state, key if query.split == "topic" else _find_title(state, key), own, files)


def find_asking_turns(state: SessionState) -> dict[str, str]:
    """Return the turn that asked for each turn's work: of one that only brought comments, the one before it."""
    found, last = dict[str, str](), ""
    for turn in sorted((*state.turns, *state.left_turns.values()), key=lambda each: each.seq):
        if not last or COMMENTS_TITLE not in turn.prompt:
            last = turn.id
        found[turn.id] = last
    return found


def _sort_into_groups(
    basis: CommitBasis, edits: Sequence[AcceptedEdit], query: q.CommitQuery
) -> dict[str, list[AcceptedEdit]]:
    """Sort the edits by todo, prompt or topic. Those of a path that can't be told apart stay together, in the last
    group."""
    topics = {edit: topic.title for topic in query.topics for edit in topic.edits}
    keys = {
        each.id: {"none": "", "todo": each.todo, "prompt": each.turn, "topic": topics.get(each.id, "")}[query.split]
        for each in edits
    }
    while True:
        groups: dict[str, list[AcceptedEdit]] = {}
        for each in edits:
            groups.setdefault(keys[each.id], []).append(each)
        clashing = _find_clash(basis, list(groups.values()))
        if not clashing:
            return groups
        last = [keys[each.id] for each in edits if each.path == clashing][-1]
        keys |= {each.id: last for each in edits if each.path == clashing}


def _find_clash(basis: CommitBasis, groups: Sequence[Sequence[AcceptedEdit]]) -> str:
    """Return a path whose edits can't be committed in this order, "" = there is none."""
    done: list[AcceptedEdit] = []
    for own in groups[:-1]:
        done += own
        for content in basis.compute(done):
            if content.problem and len({id(group) for group in groups for e in group if e.path == content.path}) > 1:
                return content.path
    return ""


def _find_title(state: SessionState, key: str) -> str:
    """Return the words of a todo or turn, "" = there is none."""
    prompts, todos = list_prompts(state), {each.id: each.content for each in state.todos}
    asker = find_asking_turns(state).get(key, key)
    return f"Follow comments: {prompts[asker]}" if asker != key else todos.get(key) or prompts.get(key, "")


def list_prompts(state: SessionState) -> dict[str, str]:
    """Return the prompts of all turns by their ids."""
    return {each.id: each.prompt for each in (*state.turns, *state.left_turns.values())}


def build_group(
    state: SessionState, title: str, edits: Sequence[AcceptedEdit], files: tuple[q.CommitFile, ...]
) -> q.CommitGroup:
    """Return what is known of a commit of these edits. `title`: what they are about, "" = what was asked for."""
    texts = {each.id: each.content for each in state.todos}
    prompts, askers = list_prompts(state), find_asking_turns(state)
    todos = tuple(dict.fromkeys(texts[each.todo] for each in edits if each.todo in texts))
    turns = dict.fromkeys(askers.get(each.turn, each.turn) for each in edits)
    asked = tuple(prompts[turn] for turn in turns if prompts.get(turn))
    checks = _list_checks(state, edits)
    return q.CommitGroup(
        title=title,
        edits=tuple(each.id for each in edits),
        files=files,
        message=write_message(title, asked, todos, checks),
        prompts=asked,
        todos=todos,
        checks=checks,
    )


def _list_checks(state: SessionState, edits: Sequence[AcceptedEdit]) -> tuple[str, ...]:
    """Return the commands that had passed over the edits when they were accepted, with the tests that they counted."""
    verdicts = {each.id: each for each in state.review.verdicts}
    found = (verdicts.get(each.id.partition(".")[0]) for each in edits)
    checks = (each.check for each in found if each is not None and each.check is not None)
    return tuple(describe_checks(state, [each.command for each in checks if each.has_passed]))


def write_message(title: str, prompts: Sequence[str], todos: Sequence[str], checks: Sequence[str]) -> str:
    """Return a commit message: one line of what was wanted, what was done, and by what it was checked."""
    wanted = title or (todos[0] if len(todos) == 1 else "") or (prompts[0] if prompts else "") or "Accepted changes"
    parts = [_shorten_subject(wanted)]
    if len(todos) > 1:
        parts.append("\n".join(f"- {' '.join(each.split())}" for each in todos))
    if checks:
        parts.append(f"Checked by: {', '.join(' '.join(each.split()) for each in checks)}")
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
    """Describe what a commit does to one path. `before`: the version that an earlier commit leaves there."""
    old = before or content.head
    hunks = compare_texts(old.data, content.after.data)
    is_gone = content.after.kind == "absent"
    return q.CommitFile(
        path=content.path,
        operation="create" if old.kind == "absent" else "delete" if is_gone else "edit",
        added=sum(each.new_lines for each in hunks),
        removed=sum(each.old_lines for each in hunks),
        problem=content.problem,
    )
