"""The content of a repository as plain data: references, commits, their changes, the index; and rewritten commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

from msgspec import Struct

from core.git.repository import GitRepository
from core.patterns import compile_lazily

MISSING_MODE = "000000"  # the mode of a missing path
LINK_MODE, SUBMODULE_MODE = "120000", "160000"
_OBJECT_NAME = compile_lazily(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_SIGNATURE = compile_lazily(rb"(?m)^gpgsig(?:-sha256)? .*\n?(?: .*\n?)*")


class GitEntry(Struct, frozen=True):
    """A path in a tree or index: its mode in octal digits and its object's name; `old_mode` and `old` are those before
    a change.

    `stage` is not 0 for the sides of an unfinished merge.
    """

    path: bytes
    mode: str
    oid: str
    old_mode: str = MISSING_MODE
    old: str = ""
    stage: int = 0


class GitCommit(Struct, frozen=True):
    """A commit. `head`: the header of the object without tree and parents; `message`: its bytes."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    head: bytes
    message: bytes

    @property
    def subject(self) -> str:
        return self.message.decode("utf-8", "replace").strip().partition("\n")[0]


# Returns the replacement of an entry that a commit changed; None = the parent's.
ReplaceEntry = Callable[[GitEntry], GitEntry | None]


def is_object_name(text: bytes) -> bool:
    """True if this is the full name of an object."""
    return _OBJECT_NAME.match(text) is not None


def list_references(repository: GitRepository) -> dict[str, str]:
    """Return every reference below `refs/` with the object that it names."""
    lines = repository.run("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8", "surrogateescape")
    pairs = (line.split(" ", 1) for line in lines.splitlines())
    return {name: oid for oid, name in pairs}


def list_symbolic_references(repository: GitRepository) -> dict[str, str]:
    """Return the symbolic references below `refs/`, with their targets."""
    lines = repository.run("for-each-ref", "--format=%(symref) %(refname)").decode("utf-8", "surrogateescape")
    pairs = (line.split(" ", 1) for line in lines.splitlines())
    return {name: target for target, name in pairs if target}


def find_object_types(repository: GitRepository, oids: Iterable[str]) -> dict[str, str]:
    """Return the type of every object, with tags peeled; "missing" for unknown objects."""
    names = list(dict.fromkeys(oids))
    if not names:
        return {}
    request = "".join(f"{name}^{{}}\n" for name in names).encode()
    output = repository.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=request).decode()
    return dict(zip(names, (line.rpartition(" ")[2] for line in output.splitlines()), strict=True))


def list_commits(repository: GitRepository, tips: Iterable[str], known_commits: Iterable[str]) -> list[GitCommit]:
    """Return the commits reachable from `tips` and not from `known_commits`, parents first."""
    request = "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in known_commits)]).encode()
    names = repository.run("rev-list", "--topo-order", "--reverse", "--stdin", stdin=request, seconds=30.0).split()
    return [read_commit(repository, name.decode()) for name in names]


def read_commit(repository: GitRepository, oid: str) -> GitCommit:
    """Read one commit, exact to the byte."""
    header, _, message = repository.run("cat-file", "commit", oid).partition(b"\n\n")
    tree, *rest = header.split(b"\n")
    parent_lines = [*takewhile(lambda line: line.startswith(b"parent "), rest)]  # git ignores a later one
    parents = [line.split()[1].decode() for line in parent_lines]
    return GitCommit(oid, tree.split()[1].decode(), tuple(parents), b"\n".join(rest[len(parent_lines) :]), message)


def list_commit_changes(repository: GitRepository, commit: GitCommit) -> list[GitEntry]:
    """Return the changes of a commit; of a merge, those that differ from all of its parents."""
    if not commit.parents:
        return list_tree(repository, commit.tree)
    diffs = [diff_trees(repository, parent, commit.oid) for parent in commit.parents]
    common = set.intersection(*({entry.path for entry in side} for side in diffs))
    return [entry for entry in diffs[0] if entry.path in common]


def diff_trees(repository: GitRepository, old: str, new: str) -> list[GitEntry]:
    """Return the entries of the tree of `new` that differ from that of `old`; "" is the empty tree."""
    if not old:
        return list_tree(repository, new) if new else []
    fields = repository.run("diff-tree", "-r", "-z", "--no-renames", old, new, seconds=30.0).split(b"\0")
    entries = []
    for facts, path in zip(fields[0:-1:2], fields[1::2], strict=True):
        old_mode, mode, before, after, _ = facts.decode().removeprefix(":").split(" ")
        entries.append(GitEntry(path, mode, after, old_mode, before))
    return entries


def list_tree(repository: GitRepository, tree: str) -> list[GitEntry]:
    """Return every file of a tree."""
    listing = parse_listing(repository.run("ls-tree", "-r", "-z", tree, seconds=30.0))
    return [GitEntry(path, mode, oid) for path, (mode, _, oid) in listing]


def list_index(repository: GitRepository) -> list[GitEntry]:
    """Return every entry of the index."""
    listing = parse_listing(repository.run("ls-files", "--stage", "-z", seconds=30.0))
    return [GitEntry(path, mode, oid, stage=int(stage)) for path, (mode, oid, stage) in listing]


def parse_listing(listing: bytes) -> Iterator[tuple[bytes, list[str]]]:
    """Yield every path of `git ls-tree -z` or `git ls-files --stage -z` with its three attributes."""
    for record in listing.split(b"\0")[:-1]:
        facts, _, path = record.partition(b"\t")
        yield path, facts.decode().split(" ")


def update_index(repository: GitRepository, entries: Iterable[GitEntry], file: str = "") -> None:
    """Set entries of an index (mode `MISSING_MODE` removes them): that of the repository, or the one in `file`."""
    lines = b"".join(f"{entry.mode} {entry.oid}\t".encode() + entry.path + b"\0" for entry in entries)
    variables = {"GIT_INDEX_FILE": file} if file else {}
    if lines:
        repository.run(
            "update-index",
            "--add",
            "--remove",
            "--replace",
            "-z",
            "--index-info",
            stdin=lines,
            seconds=30.0,
            variables=variables,
        )


def is_chain(commits: Sequence[GitCommit]) -> bool:
    """True if every commit has the previous one as its only parent."""
    return all(len(commit.parents) < 2 for commit in commits) and all(
        after.parents == (before.oid,) for before, after in pairwise(commits)
    )


def rebuild_commits(
    repository: GitRepository, chain: Sequence[GitCommit], replace_entry: ReplaceEntry
) -> dict[str, str]:
    """Return the rewritten commit for every commit of the chain ("": none).

    Author, dates and message are retained, a signature can't be. A commit that no longer changes anything is left out.
    """
    new_oids: dict[str, str] = {}
    parent = chain[0].parents[0] if chain[0].parents else ""
    for commit in chain:
        entries = [
            replacement
            for entry in list_commit_changes(repository, commit)
            if (replacement := replace_entry(entry)) is not None
        ]
        tree = _write_tree(repository, parent, entries)
        is_empty = tree == _write_tree(repository, parent, [])
        had_content = commit.tree != _write_tree(repository, commit.parents[0] if commit.parents else "", [])
        if not (is_empty and had_content):
            parent = _write_commit(repository, commit, tree, parent)
        new_oids[commit.oid] = parent
    return new_oids


def _write_tree(repository: GitRepository, parent: str, entries: Sequence[GitEntry]) -> str:
    file = str(repository.directory / "rebuilding")
    variables = {"GIT_INDEX_FILE": file}
    repository.run("read-tree", *([parent] if parent else ["--empty"]), variables=variables, seconds=30.0)
    update_index(repository, entries, file)
    return repository.run("write-tree", variables=variables, seconds=30.0).decode().strip()


def _write_commit(repository: GitRepository, commit: GitCommit, tree: str, parent: str) -> str:
    if tree == commit.tree and commit.parents == ((parent,) if parent else ()):
        return commit.oid
    parents = f"parent {parent}\n" if parent else ""
    head = _SIGNATURE.sub(b"", commit.head + b"\n").rstrip(b"\n")
    data = f"tree {tree}\n{parents}".encode() + head + b"\n\n" + commit.message
    return repository.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=data).decode().strip()
