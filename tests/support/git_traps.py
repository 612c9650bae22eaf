"""Repositories that would run a program, or tell of another place, as soon as git is asked about them.

Each trap is a function that is handed a `Ground`; what it plants runs `ground.canary`, which leaves the file `fired`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

ELSEWHERE = "name-of-another-place"  # what must not be told of


class Ground:
    """A committed repository with a changed file, a home, and a program that tells that it ran."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.root = place / "project"
        self.home = place / "home"
        self.fired = place / "fired"
        self.canary = place / "canary"
        self.canary.write_text(f"#!/bin/sh\ntouch '{self.fired}'\n")
        self.canary.chmod(0o755)
        self.home.mkdir()
        self.repository(self.root, "trunk")
        (self.root / "a.txt").write_text("changed\n")

    def git(self, *arguments: str, at: Path | None = None) -> str:
        environment = {**os.environ, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        names = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
        done = subprocess.run(
            ["git", *names, *arguments], cwd=at or self.root, env=environment, check=True, capture_output=True
        )
        return done.stdout.decode()

    def repository(self, at: Path, branch: str) -> Path:
        at.mkdir(parents=True)
        self.git("init", "-q", "-b", branch, at=at)
        (at / "a.txt").write_text("a\n")
        (at / "b.txt").write_text("b\n")
        self.git("add", ".", at=at)
        self.git("commit", "-qm", "one", at=at)
        return at

    def config(self, *pairs: tuple[str, str]) -> None:
        for key, value in pairs:
            self.git("config", key, value)

    def hook(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(self.canary.read_bytes())
        (directory / name).chmod(0o755)

    def attributes(self, text: str) -> None:
        (self.root / ".gitattributes").write_text(text)

    def evil_config(self) -> str:
        return f'[core]\n\tfsmonitor = "{self.canary}"\n[filter "evil"]\n\tclean = "{self.canary}"\n'


def _missing_tree(ground: Ground) -> None:
    tree = ground.git("rev-parse", "HEAD^{tree}").strip()
    (ground.root / ".git" / "objects" / tree[:2] / tree[2:]).unlink()


def lazy_fetch(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", "main")
    ground.config(
        *(("remote.o.url", str(other)), ("remote.o.promisor", "true"), ("remote.o.uploadpack", str(ground.canary))),
        *(("core.repositoryformatversion", "1"), ("extensions.partialClone", "o")),
    )
    _missing_tree(ground)


def lazy_fetch_over_ssh(ground: Ground) -> None:
    ground.config(
        *(("remote.o.url", "ssh://localhost/x"), ("remote.o.promisor", "true")),
        *(("core.sshCommand", str(ground.canary)), ("extensions.partialClone", "o")),
        ("core.repositoryformatversion", "1"),
    )
    _missing_tree(ground)


def lazy_fetch_by_a_helper(ground: Ground) -> None:
    ground.config(
        *(("remote.o.url", f"ext::{ground.canary}"), ("remote.o.promisor", "true"), ("protocol.allow", "always")),
        *(("core.repositoryformatversion", "1"), ("extensions.partialClone", "o")),
        ("credential.helper", str(ground.canary)),
    )
    _missing_tree(ground)


def filter_with_an_equals_sign(ground: Ground) -> None:
    ground.attributes("*.txt filter=x=y.clean\n")
    ground.config(("filter.x=y.clean.clean", str(ground.canary)), ("filter.x=y.clean.required", "true"))


def filter_process_named_by_git_alone(ground: Ground) -> None:
    (ground.root / ".git" / "info" / "attributes").write_text("*.txt filter=x=y\n")
    ground.config(("filter.x=y.process", str(ground.canary)))


def monitor(ground: Ground) -> None:
    ground.config(("core.fsmonitor", str(ground.canary)), ("core.fsmonitorHookVersion", "2"))


def hooks(ground: Ground) -> None:
    ground.hook(ground.root / "hooks", "post-index-change")
    ground.hook(ground.root / ".git" / "hooks", "post-index-change")
    ground.config(("core.hooksPath", "hooks"))


def included(ground: Ground) -> None:
    (ground.root / "evil.cfg").write_text(ground.evil_config())
    ground.attributes("*.txt filter=evil\n")
    ground.config(("include.path", "../evil.cfg"), ("includeIf.onbranch:trunk.path", "../evil.cfg"))


def configuration_of_the_worktree(ground: Ground) -> None:
    ground.attributes("*.txt filter=evil\n")
    ground.config(("core.repositoryformatversion", "1"), ("extensions.worktreeConfig", "true"))
    (ground.root / ".git" / "config.worktree").write_text(ground.evil_config())


def worktree_elsewhere(ground: Ground) -> None:
    (ground.home / ELSEWHERE).touch()
    ground.config(("core.worktree", str(ground.home)))


def shared_directory_elsewhere(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", ELSEWHERE)
    (other / ".git" / "config").write_text(ground.evil_config())
    (ground.root / ".git" / "HEAD").write_text(f"ref: refs/heads/{ELSEWHERE}\n")
    (ground.root / ".git" / "commondir").write_text(str(other / ".git"))


def repository_elsewhere(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", ELSEWHERE)
    with (other / ".git" / "config").open("a") as file:
        file.write(ground.evil_config())
    (ground.root / ".git").rename(ground.root / "was")
    (ground.root / ".git").write_text(f"gitdir: {other / '.git'}\n")


def module_elsewhere(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", "main")
    module = ground.repository(other / "module", ELSEWHERE)
    (other / ".git" / "modules").mkdir()
    (module / ".git").rename(other / ".git" / "modules" / "m")
    with (other / ".git" / "modules" / "m" / "config").open("a") as file:
        file.write(f"{ground.evil_config()}[core]\n\tworktree = ../../../module\n")
    (ground.root / ".git").rename(ground.root / "was")
    (ground.root / ".git").write_text(f"gitdir: {other / '.git' / 'modules' / 'm'}\n")


def linked_parts(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", ELSEWHERE)
    (ground.root / ".git").rename(ground.root / "was")
    (ground.root / ".git").symlink_to(other / ".git")
    with (other / ".git" / "config").open("a") as file:
        file.write(ground.evil_config())


def linked_references(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", ELSEWHERE)
    (ground.root / ".git" / "refs").rename(ground.root / "was")
    (ground.root / ".git" / "refs").symlink_to(other / ".git" / "refs")
    (ground.root / ".git" / "HEAD").unlink()
    (ground.root / ".git" / "HEAD").symlink_to(other / ".git" / "HEAD")


def alternates(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", "main")
    (ground.root / ".git" / "objects" / "info" / "alternates").write_text(f"{other / '.git' / 'objects'}\n")
    (other / ".git" / "config").write_text(ground.evil_config())
    ground.config(("core.alternateRefsCommand", str(ground.canary)), ("core.alternateRefsPrefixes", "refs"))


def submodule(ground: Ground) -> None:
    other = ground.repository(ground.place / "other", "main")
    ground.git("submodule", "add", "-q", str(other), "sub")
    ground.git("commit", "-qm", "with a module")
    inside = ground.root / ".git" / "modules" / "sub"
    with (inside / "config").open("a") as file:
        file.write(ground.evil_config())
    ground.hook(inside / "hooks", "post-index-change")
    (ground.root / "sub" / ".gitattributes").write_text("*.txt filter=evil\n")
    (ground.root / "sub" / "a.txt").write_text("changed\n")
    ground.config(("status.submoduleSummary", "true"), ("diff.ignoreSubmodules", "none"), ("submodule.recurse", "true"))
    ground.config(("submodule.sub.ignore", "none"), ("submodule.sub.update", f"!{ground.canary}"))


def repository_inside(ground: Ground) -> None:
    inner = ground.repository(ground.root / "inner", "main")
    with (inner / ".git" / "config").open("a") as file:
        file.write(ground.evil_config())
    (inner / ".gitattributes").write_text("*.txt filter=evil\n")


def bare_repository(ground: Ground) -> None:
    bare = ground.root / "bare"
    ground.git("init", "-q", "--bare", str(bare))
    with (bare / "config").open("a") as file:
        file.write(f"{ground.evil_config()}[core]\n\tbare = false\n\tworktree = ..\n")


def programs_for_showing(ground: Ground) -> None:
    canary = str(ground.canary)
    ground.attributes("*.txt diff=evil merge=evil\n")
    ground.config(
        *(("diff.external", canary), ("diff.evil.command", canary), ("diff.evil.textconv", canary)),
        *(("core.pager", canary), ("pager.status", canary), ("core.editor", canary), ("sequence.editor", canary)),
        *(("gpg.program", canary), ("log.showSignature", "true"), ("merge.evil.driver", canary)),
        *(("alias.status", f"!{canary}"), ("core.askPass", canary), ("interactive.diffFilter", canary)),
        *(("uploadpack.packObjectsHook", canary), ("core.gitProxy", canary), ("trailer.x.command", canary)),
    )
    (ground.root / ".git" / "COMMIT_EDITMSG").write_text("x\n")


def users_own_relative_programs(ground: Ground) -> None:
    ground.attributes("*.txt filter=mine\n")
    ground.hook(ground.root, "mine")
    ground.hook(ground.root / "hooks", "post-index-change")
    for key, value in (("core.fsmonitor", "./mine"), ("filter.mine.clean", "./mine"), ("core.hooksPath", "hooks")):
        ground.git("config", "--global", key, value)


TRAPS: tuple[Callable[[Ground], None], ...] = (
    *(lazy_fetch, lazy_fetch_over_ssh, lazy_fetch_by_a_helper, filter_with_an_equals_sign),
    *(filter_process_named_by_git_alone, monitor, hooks, included, configuration_of_the_worktree),
    *(worktree_elsewhere, shared_directory_elsewhere, repository_elsewhere, module_elsewhere, linked_parts),
    *(linked_references, alternates, submodule, repository_inside, bare_repository, programs_for_showing),
    users_own_relative_programs,
)
