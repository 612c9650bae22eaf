"""The outcome of accepting git's state: accepted as it is, rebuilt from accepted content, or refused.

A state of git consists of references (except those that change how git reads others), HEAD as a branch or a commit, the
staged entries, the objects reachable from these, and one line in the log of every moved reference.

The invariant: git's content afterwards never differs from what the user accepted. A commit, an index entry or a stash
with other content may be new to the repository only if every new file in it is on disk with the same content. For a
path that was rejected or is pending, `HEAD` has only the content on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.git import history
from core.git.history import MISSING_MODE, GitCommit, GitEntry
from core.git.repository import GitFailed
from core.patterns import compile_lazily
from core.shadow.content.paths import format_paths
from core.shadow.gitstate.accepted_content import AcceptedContent, StagedIndex, compute_staged_index
from core.shadow.gitstate.repository_copy import RepositoryCopy

MAX_COMMITS = 200
STASH = "refs/stash"
# References that replace objects or belong to an operation in progress are no state.
_NO_STATE = ("refs/replace/", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
_BRANCH = "ref: refs/heads/"
_NAME_WITHOUT_CONTROLS = compile_lazily(r"[^\x00-\x1f\x7f]+\Z")
_OBJECT_NAME = compile_lazily(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_MARKED = "commands changed which files git looks at; that is undone: {}"


class UnacceptedContent(Struct, frozen=True):
    """Content that was not accepted, in a commit (None: the index). `is_pending`: it is undecided."""

    commit: GitCommit | None
    path: str
    is_pending: bool


class GitOutcome(Struct, frozen=True, kw_only=True):
    """The outcome. `refused`: why nothing of it can be accepted ("" = it can). `before`, `after`: references and `HEAD`
    by name. `made`: rebuilt commits by their old names. `notes`: differences from the state that commands left.
    `fresh`: the new commits, parents first; `loose`: objects that only the index names; `others`: those that the stash
    names. `symbolic`: symbolic references; `head`: the text of HEAD before and after, "" for none; `index`: its bytes
    (b"" = none; None: the project's own stays); `staged` describes the staged changes, and `staged_paths` are their
    paths; `strange`: references of commands that are no state."""

    refused: str = ""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    fresh: tuple[GitCommit, ...] = ()
    made: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    symbolic: dict[str, str] = {}
    head: tuple[str, str] = ("", "")
    index: bytes | None = None
    staged: tuple[str, ...] = ()
    staged_paths: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()

    def is_left_out(self, commit: GitCommit) -> bool:
        """True if a rebuilt commit would be empty."""
        new_oid = self.made.get(commit.oid, commit.oid)
        return new_oid in {"", *(self.made.get(parent, parent) for parent in commit.parents)}

    def list_resulting(self) -> list[str]:
        """List the resulting new commits, parents first."""
        return [self.made.get(commit.oid, commit.oid) for commit in self.fresh if not self.is_left_out(commit)]


def compute_outcome(accepted_content: AcceptedContent) -> GitOutcome:
    """Compute the outcome for the present disk and verdicts; rebuilt objects are written to `repository.now`."""
    repository = accepted_content.repository
    outcome = _read_state(repository)
    try:
        if obstacle := _describe_obstacle(repository, outcome):
            return _refuse(outcome, obstacle)
        roots = _find_roots(repository, outcome.before, outcome.after)
        fresh = history.list_commits(repository.now, roots, _list_present(repository, outcome))
        outcome = replace(outcome, fresh=tuple(fresh))
        if len(outcome.fresh) > MAX_COMMITS:
            return _refuse(outcome, f"it has {len(outcome.fresh)} new commits; {MAX_COMMITS} can be compared")
        outcome = _resolve_commits(accepted_content, outcome)
        return outcome if outcome.refused else _resolve_index(accepted_content, _resolve_head(outcome))
    except GitFailed as problem:
        return _refuse(outcome, problem.message.rstrip("."))


def _refuse(outcome: GitOutcome, reason: str) -> GitOutcome:
    return GitOutcome(refused=f"{reason}.", before=outcome.before, after=outcome.before, fresh=outcome.fresh)


def _read_state(repository: RepositoryCopy) -> GitOutcome:
    """Read references and HEAD of both sides. References that are no state are unchanged in the project."""
    heads = [
        head.decode("utf-8", "surrogateescape").strip() for head in (_get_head_before(repository), repository.head)
    ]
    before = history.list_references(repository.before) if repository.before is not None else {}
    now = history.list_references(repository.now)
    links_before = history.list_symbolic_references(repository.before) if repository.before is not None else {}
    links = history.list_symbolic_references(repository.now)
    changed_names = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    changed_names |= {name for name in links_before.keys() | links.keys() if links_before.get(name) != links.get(name)}
    strange = {
        name
        for name in changed_names
        if not _is_state(name, links.get(name, "")) or name in links_before.keys() - links
    }
    after = {name: oid for name, oid in now.items() if name not in strange}
    after |= {name: before[name] for name in strange & before.keys()}
    symbolic = {name: links[name] for name in changed_names & links.keys() - strange}
    return GitOutcome(
        before=before | _find_head(before, heads[0]),
        after=after | _find_head(after, heads[1]),
        symbolic=symbolic,
        head=(heads[0], heads[1]),
        strange=tuple(sorted(strange)),
    )


def _get_head_before(repository: RepositoryCopy) -> bytes:
    return repository.layout.head if repository.layout is not None else b""


def _is_state(name: str, target: str) -> bool:
    """True if a reference belongs to the state; a symbolic one only as the main branch of a remote."""
    if name.startswith(_NO_STATE):
        return False
    base_name = name.removesuffix("/HEAD")
    return not target or (
        name != base_name and base_name.startswith("refs/remotes/") and target.startswith(f"{base_name}/")
    )


def _find_head(references: dict[str, str], head: str) -> dict[str, str]:
    oid = references.get(head.removeprefix("ref: "), "") if head.startswith("ref: ") else head
    return {"HEAD": oid} if oid else {}


def _resolve_head(outcome: GitOutcome) -> GitOutcome:
    """Resolve the text of HEAD, which names a commit if no branch is checked out."""
    old, new = outcome.head
    return outcome if new.startswith("ref: ") else replace(outcome, head=(old, outcome.after.get("HEAD", old)))


def _find_roots(repository: RepositoryCopy, before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """Return the objects that become reachable, with the names that reach them."""
    roots = {oid: name for name, oid in now.items() if before.get(name) != oid}
    file = repository.now.directory / "logs/refs/stash"
    for line in file.read_bytes().splitlines() if file.is_file() and before.get(STASH) != now.get(STASH) else ():
        words = line.split(b" ")
        if len(words) > 1 and history.is_object_name(words[1]):
            roots.setdefault(words[1].decode(), STASH)
    return roots


def _describe_obstacle(repository: RepositoryCopy, state: GitOutcome) -> str:
    before, now = state.before, state.after
    if description := ", ".join(repository.under_way):
        return f"a rebase or a series of picks is in progress ({description}): have it finished first"
    if description := ", ".join(repository.ended):
        return f"commands ended what is in progress in your repository ({description}): end it yourself"
    head = state.head[1]
    if head != state.head[0] and not (_is_branch(repository, head) or _OBJECT_NAME.match(head)):
        return f"HEAD names {head.removeprefix('ref: ') or 'nothing'}, which is not a branch"
    roots = _find_roots(repository, before, now)
    for oid, kind in history.find_object_types(repository.now, roots).items():
        if kind != "commit":
            description = "not there" if kind == "missing" else f"a {kind}, not a commit"
            return f"{roots[oid]} names {oid[:10]}, which is {description}"
    return ""


def _is_branch(repository: RepositoryCopy, head: str) -> bool:
    if not head.startswith(_BRANCH) or not _NAME_WITHOUT_CONTROLS.match(head):
        return False
    try:
        repository.now.run("check-ref-format", head.removeprefix("ref: "))
    except GitFailed:
        return False
    return True


def _resolve_commits(accepted_content: AcceptedContent, outcome: GitOutcome) -> GitOutcome:
    repository = accepted_content.repository
    unaccepted = [content for commit in outcome.fresh for content in _find_unaccepted(accepted_content, commit)]
    in_head = _find_unaccepted_in_head(accepted_content, outcome)
    if not unaccepted and not in_head:
        return outcome
    waiting = sorted({content.path for content in (*unaccepted, *in_head) if content.is_pending})
    if waiting:
        verb = "is pending" if len(waiting) == 1 else "are pending"
        return _refuse(outcome, f"{format_paths(waiting)} {verb} in the review: decide that first")
    head = outcome.after.get("HEAD")
    chain = history.list_commits(repository.now, [head], _list_present(repository, outcome)) if head else []
    inside = {commit.oid for commit in chain}
    outside = [content for content in unaccepted if content.commit is not None and content.commit.oid not in inside]
    if not chain or not history.is_chain(chain) or outside:
        return _refuse(outcome, _explain_refusal(repository, outcome, outside or unaccepted or in_head))
    return _rebuild_commits(accepted_content, outcome, chain)


def _list_present(repository: RepositoryCopy, outcome: GitOutcome) -> list[str]:
    kinds = history.find_object_types(repository.now, set(outcome.before.values()))
    return [oid for oid, kind in kinds.items() if kind != "missing"]


def _rebuild_commits(accepted_content: AcceptedContent, outcome: GitOutcome, chain: Sequence[GitCommit]) -> GitOutcome:
    repository = accepted_content.repository
    new_oids = history.rebuild_commits(repository.now, chain, accepted_content.find_acceptable)
    after = {name: new_oids.get(oid, oid) for name, oid in outcome.after.items()}
    after = {name: oid for name, oid in after.items() if oid}
    result = replace(outcome, after=after, made=new_oids)
    notes = tuple(_describe_commit(commit, result) for commit in chain if new_oids[commit.oid] != commit.oid)
    result = replace(result, notes=notes)
    commits = history.list_commits(
        repository.now, _find_roots(repository, outcome.before, after), _list_present(repository, outcome)
    )
    unaccepted = [content for commit in commits for content in _find_unaccepted(accepted_content, commit)]
    unaccepted += _find_unaccepted_in_head(accepted_content, result)
    return _refuse(outcome, _explain_refusal(repository, result, unaccepted)) if unaccepted else result


def _describe_commit(commit: GitCommit, outcome: GitOutcome) -> str:
    is_left_out = outcome.is_left_out(commit)
    description = (
        "left out: nothing new in it was accepted" if is_left_out else f"made again as {outcome.made[commit.oid][:10]}"
    )
    return f"commit {commit.oid[:10]} “{commit.subject}” is {description}"


def _find_unaccepted(accepted_content: AcceptedContent, commit: GitCommit) -> list[UnacceptedContent]:
    return [
        UnacceptedContent(commit, accepted_content.get_path(entry), accepted_content.is_pending(entry))
        for entry in history.list_commit_changes(accepted_content.repository.now, commit)
        if entry.mode != MISSING_MODE and not accepted_content.is_on_disk(entry)
    ]


def _find_unaccepted_in_head(accepted_content: AcceptedContent, outcome: GitOutcome) -> list[UnacceptedContent]:
    """Find rejected or pending paths whose content in HEAD would differ from the disk."""
    old, new = outcome.before.get("HEAD", ""), outcome.after.get("HEAD", "")
    if not new or old == new:
        return []
    return [
        UnacceptedContent(None, accepted_content.get_path(entry), accepted_content.is_pending(entry))
        for entry in history.diff_trees(accepted_content.repository.now, old, new)
        if accepted_content.is_rejected_or_pending(entry) and not accepted_content.is_on_disk(entry)
    ]


def _explain_refusal(repository: RepositoryCopy, outcome: GitOutcome, unaccepted: Sequence[UnacceptedContent]) -> str:
    roots = _find_roots(repository, outcome.before, outcome.after)
    first = unaccepted[0]
    if first.commit is None:
        return f"HEAD would have {first.path} in another version than you accepted"
    oid = first.commit.oid
    name = roots.get(oid) or next(
        (root_name for root, root_name in roots.items() if _is_ancestor(repository, root, oid)), ""
    )
    suffix = f" ({name})" if name else ""
    others = len({content.path for content in unaccepted}) - 1
    files = f"{first.path}{f' and {others} more' if others else ''}"
    return f"commit {oid[:10]} “{first.commit.subject}”{suffix} has {files} in another version than you accepted"


def _is_ancestor(repository: RepositoryCopy, root: str, oid: str) -> bool:
    try:
        repository.now.run("merge-base", "--is-ancestor", oid, root)
    except GitFailed:
        return False
    return True


# the index


def _resolve_index(content: AcceptedContent, outcome: GitOutcome) -> GitOutcome:
    """Resolve the index: an entry that was not accepted is replaced by that of HEAD."""
    repository = content.repository
    before = set(history.list_index(repository.before)) if repository.before is not None else set()
    now = history.list_index(repository.now) if (repository.now.directory / "index").is_file() else []
    head = outcome.after.get("HEAD", "")
    committed = {entry.path: entry for entry in history.list_tree(repository.now, head)} if head else {}
    heads = {(entry.path, entry.mode, entry.oid, 0) for entry in committed.values()}
    changes = [
        entry for entry in now if entry not in before and (entry.path, entry.mode, entry.oid, entry.stage) not in heads
    ]
    oids = {entry.oid for entry in changes}
    old = history.find_object_types(repository.before, oids) if repository.before is not None else {}
    unaccepted = [entry for entry in changes if not _is_acceptable(content, entry, old)]
    missing = {entry.path for entry in before} - {entry.path for entry in now}
    removals = [committed[path] for path in sorted(missing & committed.keys())]
    rejections = [e for e in removals if content.is_rejected_or_pending(e) and content.is_on_disk(e)]
    unaccepted += [GitEntry(entry.path, MISSING_MODE, "") for entry in rejections]
    if unaccepted:
        none = "0" * (64 if repository.hash_name == "sha256" else 40)
        paths = sorted({entry.path for entry in unaccepted})
        restored = (committed.get(path) or GitEntry(path, MISSING_MODE, none) for path in paths)
        history.update_index(repository.now, restored)
        repository.now.run("update-index", "--clear-resolve-undo")
    loose = {entry.oid for entry in changes if entry not in unaccepted and old.get(entry.oid, "missing") == "missing"}
    untracked = [entry for entry in removals if entry not in rejections]
    groups = (
        ("the staged content of {} is not what you accepted, and is removed", unaccepted),
        (
            "staged in another version than on disk: {}",
            [e for e in changes if e not in unaccepted and not content.is_on_disk(e)],
        ),
        ("no longer tracked, but still on disk: {}", [entry for entry in untracked if content.is_on_disk(entry)]),
    )
    notes = (
        text.format(format_paths([content.get_path(entry) for entry in entries])) for text, entries in groups if entries
    )
    others = sorted(_find_roots(repository, outcome.before, outcome.after).keys() - set(outcome.after.values()))
    outcome = replace(outcome, notes=(*outcome.notes, *notes), loose=tuple(sorted(loose)), others=tuple(others))
    return _add_staged_index(outcome, compute_staged_index(repository, committed.values()))


def _add_staged_index(outcome: GitOutcome, staged_index: StagedIndex) -> GitOutcome:
    marks = [_MARKED.format(format_paths(staged_index.marked))] if staged_index.marked else []
    return replace(
        outcome,
        notes=(*outcome.notes, *marks),
        index=staged_index.data,
        staged=staged_index.lines,
        staged_paths=staged_index.paths,
    )


def _is_acceptable(accepted_content: AcceptedContent, entry: GitEntry, old: dict[str, str]) -> bool:
    if accepted_content.is_on_disk(entry):
        return True
    return old.get(entry.oid, "missing") != "missing" and not accepted_content.is_rejected_or_pending(entry)


# write rules


def iterate_changed_paths(accepted_content: AcceptedContent, outcome: GitOutcome) -> Iterator[str]:
    """Yield the paths whose content, mode or presence changes in HEAD, in a new commit or in the index. A path in a new
    commit does not count if its content is that of the present HEAD. Raises `GitFailed`.

    Rules that deny writing a file are applied to these paths, as a commit distributes a change to everybody else.
    """
    repository = accepted_content.repository.now
    old, new = (references.get("HEAD", "") for references in (outcome.before, outcome.after))
    changed_entries = list[GitEntry]()
    if old != new:
        changed_entries += history.diff_trees(repository, old, new) if new else history.list_tree(repository, old)
    resulting = outcome.list_resulting()
    if resulting:
        now = {entry.path: (entry.mode, entry.oid) for entry in history.list_tree(repository, old)} if old else {}
        chain = (
            {commit.oid for commit in history.list_commits(repository, [new], [old] if old else [])} if new else set()
        )
        for oid in resulting:
            changes = history.list_commit_changes(repository, history.read_commit(repository, oid))
            changed_entries += [change for change in changes if oid not in chain or not _is_unchanged(change, now)]
    yield from sorted({*outcome.staged_paths, *map(accepted_content.get_path, changed_entries)})


def _is_unchanged(entry: GitEntry, now: dict[bytes, tuple[str, str]]) -> bool:
    return entry.mode != MISSING_MODE and now.get(entry.path) == (entry.mode, entry.oid)
