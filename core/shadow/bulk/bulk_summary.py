"""Summaries of the bulks of a session: the contents of the retained layers, counted by root."""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from core.patterns import compile_lazily
from core.protocol.events import LayersChanged
from core.protocol.review import Bulk
from core.shadow.layers.layer_store import RetainedTop
from core.shadow.layers.merged_tree import MergedTree

_BULK_KINDS: dict[str, Literal["large", "git"]] = {"large": "large", "git": "git"}
# The names that git, or a tool that extends it, uses in its directory. Files of other programs there mean nothing to
# git, and accepting a state of git never writes them.
_GITS_OWN = compile_lazily(
    r"[A-Z]|(?:index|packed-refs|sharedindex|shallow|refs|reftable|logs|objects|modules|worktrees|info|hooks|config|"
    r"description|branches|remotes|commondir|gitdir|gc|next-index|fsmonitor|rebase|sequencer|rr-cache|lfs|annex|svn)"
)


class _Count(Struct):
    files: int = 0
    size: int = 0
    deleted: int = 0
    risk: str = ""
    is_gits: bool = False


def build_layers_changed(tree: MergedTree) -> LayersChanged:
    """Build the event with the present contents of the retained layers."""
    return LayersChanged(layers=tree.layers.retained.layers, bulks=summarize_bulks(tree))


def list_retained_files(tree: MergedTree) -> Iterator[str]:
    """Yield every regular file in the retained layers outside of git's own directory."""
    for path, top in tree.layers.retained.tops.items():
        if top.kind != "git":
            for below, entry in tree.stack.walk(path):
                if entry is not None and stat.S_ISREG(entry.stats.st_mode):
                    yield below


def summarize_bulks(tree: MergedTree) -> tuple[Bulk, ...]:
    """Return one `Bulk` for every root, sorted by name."""
    retained_layers, counts = tree.layers.retained, defaultdict[str, _Count](_Count)
    conflicts = {bulk.root: bulk.conflict for bulk in tree.state.bulks}
    for path, top in retained_layers.tops.items():
        count = counts[top.root]
        for child, entry in tree.stack.walk(path):
            if top.kind != "git" and (inside := _find_repository(child, tree)):
                count.risk = f"makes git run its contents: git takes {inside} for a repository"
            if entry is None:
                count.deleted += 1
            elif not stat.S_ISDIR(entry.stats.st_mode):
                count.files += 1
                count.size += entry.stats.st_size
            if top.kind == "git" and (entry is None or not entry.is_directory):
                count.is_gits = count.is_gits or _is_gits_own(child, path)
    latest = {top.root: top for top in sorted(retained_layers.tops.values(), key=lambda top: top.since)}
    return tuple(
        Bulk(
            root=root,
            kind=_name_kind(latest[root], count),
            files=count.files,
            bytes=count.size,
            deleted=count.deleted,
            origin=latest[root].origin,
            conflict=conflicts.get(root, ""),
            risk=count.risk,
            stale="; ".join(
                sorted({top.stale for top in retained_layers.tops.values() if top.root == root and top.stale})
            ),
        )
        for root, count in sorted(counts.items())
    )


def _name_kind(top: RetainedTop, count: _Count) -> Literal["generated", "git", "large"]:
    """Return the kind of a bulk. Files of other programs in git's directory are no state of git."""
    if top.kind == "git" and count.files and not count.is_gits:
        return "generated"
    return _BULK_KINDS.get(top.kind, "generated")


def _is_gits_own(path: str, top: str) -> bool:
    """True if a path at or below git's directory `top` belongs to git itself."""
    inside = path.removeprefix(top).lstrip("/")
    return not inside or _GITS_OWN.match(inside) is not None


def summarize_path(tree: MergedTree, path: str, top: RetainedTop) -> Bulk:
    """Summarize the retained layers at and below one path as a separate bulk."""
    entries = [entry for _, entry in tree.stack.walk(path)]
    files = [entry for entry in entries if entry is not None and not entry.is_directory]
    return Bulk(
        root=path,
        kind=_BULK_KINDS.get(top.kind, "generated"),
        files=len(files),
        bytes=sum(entry.stats.st_size for entry in files),
        deleted=entries.count(None),
        origin=top.origin,
    )


def _find_repository(path: str, tree: MergedTree) -> str:
    """Return the directory that this file turns into a bare repository; "" = none."""
    directory, _, name = path.rpartition("/")
    directory = directory.removesuffix("/hooks") if directory.endswith("/hooks") else directory
    if not directory or (name not in {"HEAD", "config"} and not path.startswith(f"{directory}/hooks/")):
        return ""
    return directory if tree.is_bare_repository(directory) else ""


def describe_bulk(bulk: Bulk) -> str:
    """Describe a bulk for the record of its verdict."""
    label = "git's own state" if bulk.kind == "git" else "generated files"
    suffix = f", {bulk.deleted} removed" if bulk.deleted else ""
    return f"{label}: {bulk.files} written{suffix}"
