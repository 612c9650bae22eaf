"""The outcome of accepting git's state: taken over, rebuilt from what was accepted, or refused.

A state of git is what is listed here and nothing else: references (but for those that change how git reads others),
HEAD as a branch or a commit, what is staged, the objects that these lead to, and one line in the log of each reference
that moves.

The law: nothing that git would hold then differs from what the user accepted. A commit, an index entry or a stash with
other content is new to the repository only if every new file in it is on disk as it stands there; and of a path that
was rejected or is pending, `HEAD` has nothing but what is on disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.git import history
from core.git.history import MISSING_MODE, GitCommit, GitEntry
from core.git.repository import GitFailed
from core.shadow.gitstate.accepted_content import AcceptedContent
from core.shadow.gitstate.repository_copy import RepositoryCopy
from core.shadow.gitstate.staged_index import StagedIndex, compute_staged_index
from core.shadow.paths import format_paths

MAX_COMMITS = 200
STASH = "refs/stash"
# Below `refs/`, what replaces objects or is a note of something under way: no state.
_NO_STATE = ("refs/replace/", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
_BRANCH = "ref: refs/heads/"
_NAME_WITHOUT_CONTROLS = re.compile(r"[^\x00-\x1f\x7f]+\Z")
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_MARKED = "commands changed which files git looks at, which is taken back: {}"


class UnacceptedContent(Struct, frozen=True):
    """Content that was not accepted, in a commit (None: the index). `is_pending`: it is still to be decided."""

    commit: GitCommit | None
    path: str
    is_pending: bool


class GitOutcome(Struct, frozen=True, kw_only=True):
    """The outcome: `refused`, why nothing of it can be taken over ("" = it can). `before`, `after`: references and
    `HEAD` by name. `made`: rebuilt commits by the old name. `notes`: what differs from what commands left. `fresh`: the
    new commits, parents first; `loose`: objects that only the index names; `others`: those that the stash names.
    `symbolic`: references that stand for another one; `head`: the text of HEAD before and after, "" for none; `index`:
    its bytes (empty: none; None: the project's own stays); `staged` describes what it stages, and `staged_paths` are
    the paths of that; `strange`: references that commands left and that are no state."""

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
        """True if nothing is left of a rebuilt commit."""
        made = self.made.get(commit.oid, commit.oid)
        return made in {"", *(self.made.get(parent, parent) for parent in commit.parents)}

    def list_resulting(self) -> list[str]:
        """List the new commits as they will be, parents first."""
        return [self.made.get(each.oid, each.oid) for each in self.fresh if not self.is_left_out(each)]


def compute_outcome(accepted: AcceptedContent) -> GitOutcome:
    """Compute the outcome for the disk and the verdicts as they are; rebuilt objects lie in `repository.now`."""
    repository = accepted.repository
    found = _read_state(repository)
    try:
        if why := _describe_obstacle(repository, found):
            return _refuse(found, why)
        roots = _find_roots(repository, found.before, found.after)
        fresh = history.list_commits(repository.now, roots, _list_known(repository, found))
        found = replace(found, fresh=tuple(fresh))
        if len(found.fresh) > MAX_COMMITS:
            return _refuse(found, f"it has {len(found.fresh)} new commits; {MAX_COMMITS} can be compared")
        found = _resolve_commits(accepted, found)
        return found if found.refused else _resolve_index(accepted, _resolve_head(found))
    except GitFailed as problem:
        return _refuse(found, problem.message.rstrip("."))


def _refuse(found: GitOutcome, why: str) -> GitOutcome:
    return GitOutcome(refused=f"{why}.", before=found.before, after=found.before, fresh=found.fresh)


def _read_state(repository: RepositoryCopy) -> GitOutcome:
    """Read references and HEAD on both sides. A reference that is no state stays as it is in the project."""
    heads = [
        each.decode("utf-8", "surrogateescape").strip() for each in (_get_head_before(repository), repository.head)
    ]
    before = history.list_references(repository.before) if repository.before is not None else {}
    now = history.list_references(repository.now)
    links_before = history.list_symbolic_references(repository.before) if repository.before is not None else {}
    links = history.list_symbolic_references(repository.now)
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    changed |= {name for name in links_before.keys() | links.keys() if links_before.get(name) != links.get(name)}
    strange = {
        name for name in changed if not _is_state(name, links.get(name, "")) or name in links_before.keys() - links
    }
    after = {name: oid for name, oid in now.items() if name not in strange}
    after |= {name: before[name] for name in strange & before.keys()}
    symbolic = {name: links[name] for name in changed & links.keys() - strange}
    return GitOutcome(
        before=before | _find_head(before, heads[0]),
        after=after | _find_head(after, heads[1]),
        symbolic=symbolic,
        head=(heads[0], heads[1]),
        strange=tuple(sorted(strange)),
    )


def _get_head_before(repository: RepositoryCopy) -> bytes:
    return repository.places.head if repository.places is not None else b""


def _is_state(name: str, target: str) -> bool:
    """True if a reference belongs to the state; one that stands for another only as the main branch of a remote."""
    if name.startswith(_NO_STATE):
        return False
    place = name.removesuffix("/HEAD")
    return not target or (name != place and place.startswith("refs/remotes/") and target.startswith(f"{place}/"))


def _find_head(references: dict[str, str], head: str) -> dict[str, str]:
    at = references.get(head.removeprefix("ref: "), "") if head.startswith("ref: ") else head
    return {"HEAD": at} if at else {}


def _resolve_head(found: GitOutcome) -> GitOutcome:
    """Resolve the text of HEAD, which names a commit where no branch is checked out."""
    old, new = found.head
    return found if new.startswith("ref: ") else replace(found, head=(old, found.after.get("HEAD", old)))


def _find_roots(repository: RepositoryCopy, before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """Return the objects that git would hold on to from now on, with the name that does."""
    found = {oid: name for name, oid in now.items() if before.get(name) != oid}
    file = repository.now.directory / "logs/refs/stash"
    for line in file.read_bytes().splitlines() if file.is_file() and before.get(STASH) != now.get(STASH) else ():
        words = line.split(b" ")
        if len(words) > 1 and history.is_object_name(words[1]):
            found.setdefault(words[1].decode(), STASH)
    return found


def _describe_obstacle(repository: RepositoryCopy, state: GitOutcome) -> str:
    before, now = state.before, state.after
    if what := ", ".join(repository.under_way):
        return f"a rebase or a series of picks is under way ({what}): have it finished first"
    if what := ", ".join(repository.ended):
        return f"commands ended what is under way in your repository ({what}): end it yourself"
    head = state.head[1]
    if head != state.head[0] and not (_is_branch(repository, head) or _OBJECT_NAME.match(head)):
        return f"HEAD names {head.removeprefix('ref: ') or 'nothing'}, which is no branch"
    roots = _find_roots(repository, before, now)
    for oid, kind in history.find_object_types(repository.now, roots).items():
        if kind != "commit":
            what = "not there" if kind == "missing" else f"a {kind}, no commit"
            return f"{roots[oid]} names {oid[:10]}, which is {what}"
    return ""


def _is_branch(repository: RepositoryCopy, head: str) -> bool:
    if not head.startswith(_BRANCH) or not _NAME_WITHOUT_CONTROLS.match(head):
        return False
    try:
        repository.now.run("check-ref-format", head.removeprefix("ref: "))
    except GitFailed:
        return False
    return True


def _resolve_commits(accepted: AcceptedContent, found: GitOutcome) -> GitOutcome:
    repository = accepted.repository
    bad = [each for commit in found.fresh for each in _find_unaccepted(accepted, commit)]
    in_head = _find_unaccepted_in_head(accepted, found)
    if not bad and not in_head:
        return found
    waiting = sorted({each.path for each in (*bad, *in_head) if each.is_pending})
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        return _refuse(found, f"{format_paths(waiting)} {verb} in the review: decide that first")
    head = found.after.get("HEAD")
    chain = history.list_commits(repository.now, [head], _list_known(repository, found)) if head else []
    inside = {each.oid for each in chain}
    outside = [each for each in bad if each.commit is not None and each.commit.oid not in inside]
    if not chain or not history.is_chain(chain) or outside:
        return _refuse(found, _explain_refusal(repository, found, outside or bad or in_head))
    return _rebuild_commits(accepted, found, chain)


def _list_known(repository: RepositoryCopy, found: GitOutcome) -> list[str]:
    there = history.find_object_types(repository.now, set(found.before.values()))
    return [each for each, kind in there.items() if kind != "missing"]


def _rebuild_commits(accepted: AcceptedContent, found: GitOutcome, chain: Sequence[GitCommit]) -> GitOutcome:
    repository = accepted.repository
    made = history.rebuild_commits(repository.now, chain, accepted.find_acceptable)
    after = {name: made.get(oid, oid) for name, oid in found.after.items()}
    after = {name: oid for name, oid in after.items() if oid}
    result = replace(found, after=after, made=made)
    notes = tuple(_describe_commit(each, result) for each in chain if made[each.oid] != each.oid)
    result = replace(result, notes=notes)
    left = history.list_commits(
        repository.now, _find_roots(repository, found.before, after), _list_known(repository, found)
    )
    bad = [each for commit in left for each in _find_unaccepted(accepted, commit)]
    bad += _find_unaccepted_in_head(accepted, result)
    return _refuse(found, _explain_refusal(repository, result, bad)) if bad else result


def _describe_commit(of: GitCommit, outcome: GitOutcome) -> str:
    is_left_out = outcome.is_left_out(of)
    what = "left out: nothing new in it was accepted" if is_left_out else f"made again as {outcome.made[of.oid][:10]}"
    return f"commit {of.oid[:10]} “{of.subject}” is {what}"


def _find_unaccepted(accepted: AcceptedContent, of: GitCommit) -> list[UnacceptedContent]:
    return [
        UnacceptedContent(of, accepted.get_path(each), accepted.is_pending(each))
        for each in history.list_commit_changes(accepted.repository.now, of)
        if each.mode != MISSING_MODE and not accepted.is_on_disk(each)
    ]


def _find_unaccepted_in_head(accepted: AcceptedContent, found: GitOutcome) -> list[UnacceptedContent]:
    """Find what HEAD would have of rejected or pending paths other than the disk."""
    old, new = found.before.get("HEAD", ""), found.after.get("HEAD", "")
    if not new or old == new:
        return []
    return [
        UnacceptedContent(None, accepted.get_path(each), accepted.is_pending(each))
        for each in history.diff_trees(accepted.repository.now, old, new)
        if accepted.is_rejected_or_pending(each) and not accepted.is_on_disk(each)
    ]


def _explain_refusal(repository: RepositoryCopy, found: GitOutcome, bad: Sequence[UnacceptedContent]) -> str:
    roots = _find_roots(repository, found.before, found.after)
    first = bad[0]
    if first.commit is None:
        return f"HEAD would hold {first.path} other than you accepted it"
    oid = first.commit.oid
    name = roots.get(oid) or next((each for at, each in roots.items() if _is_ancestor(repository, at, oid)), "")
    more = f" ({name})" if name else ""
    others = len({each.path for each in bad}) - 1
    files = f"{first.path}{f' and {others} more' if others else ''}"
    return f"commit {oid[:10]} “{first.commit.subject}”{more} holds {files} other than you accepted it"


def _is_ancestor(repository: RepositoryCopy, root: str, oid: str) -> bool:
    try:
        repository.now.run("merge-base", "--is-ancestor", oid, root)
    except GitFailed:
        return False
    return True


# the index


def _resolve_index(accepted: AcceptedContent, found: GitOutcome) -> GitOutcome:
    """Resolve the index: an entry that was not accepted becomes what HEAD has of the path."""
    repository = accepted.repository
    before = set(history.list_index(repository.before)) if repository.before is not None else set()
    now = history.list_index(repository.now) if (repository.now.directory / "index").is_file() else []
    head = found.after.get("HEAD", "")
    committed = {each.path: each for each in history.list_tree(repository.now, head)} if head else {}
    heads = {(each.path, each.mode, each.oid, 0) for each in committed.values()}
    changed = [each for each in now if each not in before and (each.path, each.mode, each.oid, each.stage) not in heads]
    oids = {each.oid for each in changed}
    old = history.find_object_types(repository.before, oids) if repository.before is not None else {}
    bad = [each for each in changed if not _can_stay(accepted, each, old)]
    missing = {each.path for each in before} - {each.path for each in now}
    removed = [committed[path] for path in sorted(missing & committed.keys())]
    rejected = [each for each in removed if accepted.is_rejected_or_pending(each) and accepted.is_on_disk(each)]
    bad += [GitEntry(each.path, MISSING_MODE, "") for each in rejected]
    if bad:
        none = "0" * (64 if repository.hash_name == "sha256" else 40)
        paths = sorted({each.path for each in bad})
        wanted = (committed.get(path) or GitEntry(path, MISSING_MODE, none) for path in paths)
        history.update_index(repository.now, wanted)
        repository.now.run("update-index", "--clear-resolve-undo")
    loose = {each.oid for each in changed if each not in bad and old.get(each.oid, "missing") == "missing"}
    gone = [each for each in removed if each not in rejected]
    told = (
        ("what was staged of {} is not what you accepted, and is taken out", bad),
        ("staged otherwise than on disk: {}", [e for e in changed if e not in bad and not accepted.is_on_disk(e)]),
        ("no longer tracked, and still on disk: {}", [each for each in gone if accepted.is_on_disk(each)]),
    )
    notes = (
        text.format(format_paths([accepted.get_path(each) for each in entries])) for text, entries in told if entries
    )
    others = sorted(_find_roots(repository, found.before, found.after).keys() - set(found.after.values()))
    found = replace(found, notes=(*found.notes, *notes), loose=tuple(sorted(loose)), others=tuple(others))
    return _add_staged_index(found, compute_staged_index(repository, committed.values()))


def _add_staged_index(found: GitOutcome, staged: StagedIndex) -> GitOutcome:
    marks = [_MARKED.format(format_paths(staged.marked))] if staged.marked else []
    return replace(
        found, notes=(*found.notes, *marks), index=staged.data, staged=staged.lines, staged_paths=staged.paths
    )


def _can_stay(accepted: AcceptedContent, entry: GitEntry, old: dict[str, str]) -> bool:
    if accepted.is_on_disk(entry):
        return True
    return old.get(entry.oid, "missing") != "missing" and not accepted.is_rejected_or_pending(entry)


# for the rules of the user


def iterate_changed_paths(accepted: AcceptedContent, found: GitOutcome) -> Iterator[str]:
    """Iterate over the paths whose content, mode or presence is another one in HEAD, in a new commit or in the index.
    What is in a new commit below HEAD as HEAD has it now is none. Raises `GitFailed`.

    A rule that denies writing a file is asked about these: a commit is how a change of it reaches everybody else.
    """
    room = accepted.repository.now
    old, new = (each.get("HEAD", "") for each in (found.before, found.after))
    changed = list[GitEntry]()
    if old != new:
        changed += history.diff_trees(room, old, new) if new else history.list_tree(room, old)
    resulting = found.list_resulting()
    if resulting:
        now = {each.path: (each.mode, each.oid) for each in history.list_tree(room, old)} if old else {}
        chain = {each.oid for each in history.list_commits(room, [new], [old] if old else [])} if new else set()
        for oid in resulting:
            changes = history.list_commit_changes(room, history.read_commit(room, oid))
            changed += [each for each in changes if oid not in chain or not _is_as_before(each, now)]
    yield from sorted({*found.staged_paths, *map(accepted.get_path, changed)})


def _is_as_before(entry: GitEntry, now: dict[bytes, tuple[str, str]]) -> bool:
    return entry.mode != MISSING_MODE and now.get(entry.path) == (entry.mode, entry.oid)
