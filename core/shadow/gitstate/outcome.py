"""What becomes of git's state when it is accepted: taken over, made again from what was accepted, or refused.

The law: nothing that git would hold then differs from what the user accepted. A commit, an index entry or a stash with
other content is new to the repository only if every file in it that is new is on disk as it stands there; and `HEAD`
has nothing of a path that was rejected or waits but what is on disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.git.history import (
    GONE,
    Commit,
    Entry,
    changes,
    commits,
    differences,
    index,
    is_name,
    kinds,
    look_again,
    put_in_index,
    references,
    tree,
    unseen,
)
from core.git.rebuild import is_chain, rebuilt
from core.git.room import GitFailed, Room
from core.shadow.gitstate.accepted import Accepted
from core.shadow.gitstate.laid import LaidRepository

MOST_COMMITS = 200
NAMED = 5
STASH = "refs/stash"


class Bad(Struct, frozen=True):
    """Content that was not accepted: of a commit (None: the index), at a path; `waits`: it is still to be decided."""

    commit: Commit | None
    path: str
    waits: bool


class Outcome(Struct, frozen=True, kw_only=True):
    """`refused`: why nothing of it can be taken over; "": it can. `before`, `after`: references and `HEAD` by name, as
    they were, and as they will be. `made`: commits by what stands for them. `notes`: what is not as commands left it.
    `fresh`: the commits that are new, parents first; `loose`: objects that only the index names,
    `others`: those that the stash or a merge names."""

    refused: str = ""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    fresh: tuple[Commit, ...] = ()
    made: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def leaves_out(self, commit: Commit) -> bool:
        """Whether nothing is left of a commit that stands for something else."""
        made = self.made.get(commit.oid, commit.oid)
        return made in {"", *(self.made.get(parent, parent) for parent in commit.parents)}

    def become(self) -> list[str]:
        """The new commits as they will be, parents first."""
        return [self.made.get(each.oid, each.oid) for each in self.fresh if not self.leaves_out(each)]


def judged(laid: LaidRepository, accepted: Accepted) -> Outcome:
    """The outcome for the disk and the verdicts as they are; objects that are made again lie in `laid.now`."""
    before = _named(laid.before, laid.places.head if laid.places else b"")
    now = _named(laid.now, laid.head)
    found = Outcome(before=before, after=now)
    try:
        if why := _under_way(laid) or _no_commits(laid, before, now):
            return _refused(found, why)
        found = _with_fresh(laid, found)
        if len(found.fresh) > MOST_COMMITS:
            return _refused(found, f"it has {len(found.fresh)} new commits; {MOST_COMMITS} can be compared")
        found = _settled(laid, accepted, found)
        return found if found.refused else _with_index(laid, accepted, found)
    except GitFailed as problem:
        return _refused(found, problem.message.rstrip("."))


def _refused(found: Outcome, why: str) -> Outcome:
    return Outcome(refused=f"{why}.", before=found.before, after=found.before, fresh=found.fresh)


def _named(room: Room | None, head: bytes) -> dict[str, str]:
    found = references(room) if room is not None else {}
    target = head.decode("utf-8", "surrogateescape").strip()
    at = found.get(target.removeprefix("ref: "), "") if target.startswith("ref: ") else target
    return found | ({"HEAD": at} if at else {})


def _under_way(laid: LaidRepository) -> str:
    what = ", ".join(laid.under_way)
    return f"a rebase or a series of picks is under way ({what}): have it finished first" if what else ""


def _roots(laid: LaidRepository, before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """Objects that git would hold on to from now on, with the name that does."""
    found = {oid: name for name, oid in now.items() if before.get(name) != oid}
    for name, lines in (("logs/refs/stash", 1), ("MERGE_HEAD", 0), ("CHERRY_PICK_HEAD", 0), ("REVERT_HEAD", 0)):
        file = laid.now.directory / name
        for line in file.read_bytes().splitlines() if file.is_file() else ():
            words = line.split(b" ")
            if len(words) > lines and is_name(words[lines]):
                found.setdefault(words[lines].decode(), STASH if lines else name)
    return found


def _no_commits(laid: LaidRepository, before: dict[str, str], now: dict[str, str]) -> str:
    roots = _roots(laid, before, now)
    for oid, kind in kinds(laid.now, roots).items():
        if kind != "commit":
            what = "not there" if kind == "missing" else f"a {kind}, no commit"
            return f"{roots[oid]} names {oid[:10]}, which is {what}"
    return ""


def _with_fresh(laid: LaidRepository, found: Outcome) -> Outcome:
    fresh = commits(laid.now, _roots(laid, found.before, found.after), _known(laid, found))
    return Outcome(before=found.before, after=found.after, fresh=tuple(fresh))


def _settled(laid: LaidRepository, accepted: Accepted, found: Outcome) -> Outcome:
    bad = [each for commit in found.fresh for each in _bad_in(laid, accepted, commit)]
    in_head = _bad_in_head(laid, accepted, found)
    if not bad and not in_head:
        return found
    waiting = sorted({each.path for each in (*bad, *in_head) if each.waits})
    if waiting:
        return _refused(
            found, f"{_list(waiting)} {'waits' if len(waiting) == 1 else 'wait'} in the review: decide that first"
        )
    chain = commits(laid.now, [found.after.get("HEAD", "")], _known(laid, found)) if found.after.get("HEAD") else []
    inside = {each.oid for each in chain}
    outside = [each for each in bad if each.commit is not None and each.commit.oid not in inside]
    if not chain or not is_chain(chain) or outside:
        return _refused(found, _why(laid, found, outside or bad or in_head))
    return _made_again(laid, accepted, found, chain)


def _known(laid: LaidRepository, found: Outcome) -> list[str]:
    there = kinds(laid.now, set(found.before.values()))
    return [each for each, kind in there.items() if kind != "missing"]


def _made_again(laid: LaidRepository, accepted: Accepted, found: Outcome, chain: Sequence[Commit]) -> Outcome:
    made = rebuilt(laid.now, chain, accepted.settled)
    after = {name: made.get(oid, oid) for name, oid in found.after.items()}
    after = {name: oid for name, oid in after.items() if oid}
    result = Outcome(before=found.before, after=after, fresh=found.fresh, made=made)
    result = replace(result, notes=tuple(_told(each, result) for each in chain if made[each.oid] != each.oid))
    left = commits(laid.now, _roots(laid, found.before, after), _known(laid, found))
    bad = [each for commit in left for each in _bad_in(laid, accepted, commit)]
    bad += _bad_in_head(laid, accepted, result)
    return _refused(found, _why(laid, result, bad)) if bad else result


def _told(of: Commit, outcome: Outcome) -> str:
    is_left_out = outcome.leaves_out(of)
    what = "left out: nothing new in it was accepted" if is_left_out else f"made again as {outcome.made[of.oid][:10]}"
    return f"commit {of.oid[:10]} “{of.subject}” is {what}"


def _bad_in(laid: LaidRepository, accepted: Accepted, of: Commit) -> list[Bad]:
    found = [each for each in changes(laid.now, of) if each.mode != GONE and not accepted.holds(each)]
    return [Bad(of, accepted.path(each), accepted.waits(each)) for each in found]


def _bad_in_head(laid: LaidRepository, accepted: Accepted, found: Outcome) -> list[Bad]:
    """What HEAD would have of paths that were rejected or wait, other than the disk."""
    old, new = found.before.get("HEAD", ""), found.after.get("HEAD", "")
    if not new or old == new:
        return []
    changed = [each for each in differences(laid.now, old, new) if accepted.was_judged(each)]
    return [Bad(None, accepted.path(each), accepted.waits(each)) for each in changed if not accepted.holds(each)]


def _why(laid: LaidRepository, found: Outcome, bad: Sequence[Bad]) -> str:
    roots = _roots(laid, found.before, found.after)
    first = bad[0]
    if first.commit is None:
        return f"HEAD would hold {first.path} other than you accepted it"
    oid = first.commit.oid
    name = roots.get(oid) or next((each for at, each in roots.items() if _leads_to(laid, at, oid)), "")
    more = f" ({name})" if name else ""
    others = len({each.path for each in bad}) - 1
    files = f"{first.path}{f' and {others} more' if others else ''}"
    return f"commit {oid[:10]} “{first.commit.subject}”{more} holds {files} other than you accepted it"


def _leads_to(laid: LaidRepository, root: str, oid: str) -> bool:
    try:
        laid.now.run("merge-base", "--is-ancestor", oid, root)
    except GitFailed:
        return False
    return True


def _list(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more}"


# the index


def _with_index(laid: LaidRepository, accepted: Accepted, found: Outcome) -> Outcome:
    """The index with nothing in it that was not accepted: such an entry becomes what HEAD has of the path."""
    before = set(index(laid.before)) if laid.before is not None else set()
    now = index(laid.now) if (laid.now.directory / "index").is_file() else []
    head = found.after.get("HEAD", "")
    committed = {each.path: each for each in tree(laid.now, head)} if head else {}
    changed = [each for each in now if each not in before and not _is_of(committed, each)]
    old = kinds(laid.before, {each.oid for each in changed}) if laid.before is not None else {}
    bad = [each for each in changed if not _may_stand(accepted, each, old)]
    there = {each.path for each in now}
    missing = {each.path for each in before} - there
    bad += [Entry(path, GONE, "") for path in sorted(missing) if _is_taken_out(accepted, committed.get(path))]
    if bad:
        none = "0" * (64 if laid.hashes == "sha256" else 40)
        paths = sorted({each.path for each in bad})
        put_in_index(laid.now, (committed.get(path) or Entry(path, GONE, none) for path in paths))
        laid.now.run("update-index", "--clear-resolve-undo")
    loose = {each.oid for each in changed if each not in bad and old.get(each.oid, "missing") == "missing"}
    taken_out = {each.path for each in bad}
    gone = [committed[path] for path in sorted(missing - taken_out) if path in committed]
    told = (
        ("what was staged of {} is not what you accepted, and is taken out", bad),
        ("staged otherwise than on disk: {}", [e for e in changed if e not in bad and not accepted.holds(e)]),
        ("no longer tracked, and still on disk: {}", [each for each in gone if accepted.holds(each)]),
        ("git was told not to look at {}: that is taken back", _seen_again(laid, accepted)),
    )
    notes = (text.format(_list([accepted.path(each) for each in entries])) for text, entries in told if entries)
    return replace(
        found,
        notes=(*found.notes, *notes),
        loose=tuple(sorted(loose)),
        others=tuple(sorted(set(_roots(laid, found.before, found.after)) - set(found.after.values()))),
    )


def _seen_again(laid: LaidRepository, accepted: Accepted) -> list[Entry]:
    """Files on disk whose changes the index would hide, and did not before: it hides them no more."""
    known = unseen(laid.before) if laid.before is not None else set()
    hidden = (Entry(path, GONE, "") for path in sorted(unseen(laid.now) - known))
    found = [each for each in hidden if not accepted.holds(each)]
    if found:
        look_again(laid.now, (each.path for each in found))
    return found


def _is_of(committed: dict[bytes, Entry], entry: Entry) -> bool:
    known = committed.get(entry.path)
    return entry.stage == 0 and known is not None and (known.mode, known.oid) == (entry.mode, entry.oid)


def _may_stand(accepted: Accepted, entry: Entry, old: dict[str, str]) -> bool:
    if accepted.holds(entry):
        return True
    return old.get(entry.oid, "missing") != "missing" and not accepted.was_judged(entry)


def _is_taken_out(accepted: Accepted, committed: Entry | None) -> bool:
    """Whether a removal was staged that the user rejected."""
    return committed is not None and accepted.was_judged(committed) and accepted.holds(committed)
