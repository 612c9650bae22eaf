"""The one place that starts git: in a directory of its own that stands for the repository, with our configuration.

A repository can name programs in many places of its configuration (filters, monitors, hooks, transports of a partial
clone …), under names that it chooses. None of them is overridden: git never reads that configuration. What it is shown
as its directory holds a configuration file of ours (`core.git.settings`) and links to the parts that hold data.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from msgspec import Struct

from core.errors import AgentTuiError
from core.git.places import Places, find, is_real, read_small
from core.git.settings import Pairs, harmless, last, read_pairs
from core.git.short_lived import short_lived

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
MOST = 64 << 20  # bytes of an answer
_KEPT = ("HOME", "XDG_CONFIG_HOME")
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_ATTR_NOSYSTEM": "1",
}
_OF_THE_WORKTREE = ("index", "info/sparse-checkout")
_SHARED = ("packed-refs", "shallow", "info/exclude", "info/attributes")


class GitFailed(AgentTuiError):
    """Git is not there, or gave no answer."""

    code = "git_failed"


class Room(Struct, frozen=True):
    """`directory` stands for the repository; `root` is the worktree. Good as long as `room` is open."""

    git: str
    directory: Path
    root: Path

    def run(
        self, *arguments: str, stdin: bytes = b"", seconds: float = 10.0, more: dict[str, str] | None = None
    ) -> bytes:
        """What git prints. `more`: variables of the environment. `GitFailed` when it fails, or takes too long."""
        environment = _environment(self.root) | _FIXED | _only_ours(self.directory)
        environment |= {"GIT_DIR": str(self.directory), "GIT_WORK_TREE": str(self.root), **(more or {})}
        return _answer([self.git, "--no-pager", *arguments], self.root, environment, stdin, seconds)


@contextmanager
def room(root: Path) -> Iterator[Room | None]:
    """For the repository whose top is `root`, a real path; None: there is none, or it belongs to another place.

    `GitFailed` without git, or if the configuration can't be read.
    """
    places = find(root)
    if places is None:
        yield None
        return
    git = at_hand(root)
    with short_lived() as directory:
        made = Room(git, directory, root)
        users, repository = configured(made, own_text(places))
        is_ours = not places.module or _leads_to(places, last(repository, "core.worktree"))
        if is_ours:
            furnish(made, places, harmless(users, repository, places.head))
        yield made if is_ours else None


def furnish(made: Room, places: Places, configuration: str) -> None:
    """Make the directory of a room: our configuration, and links to data. Raises OSError."""
    directory = made.directory
    (directory / "config").write_text(configuration, encoding="utf-8", errors="surrogateescape")
    (directory / "HEAD").write_bytes(places.head)
    (directory / "info").mkdir()
    for name in ("objects", "refs", "reftable"):
        if is_real(places.common / name, stat.S_IFDIR):
            (directory / name).symlink_to(places.common / name)
    shared = [each.name for each in places.own.glob("sharedindex.*")]
    for home, names in ((places.own, (*_OF_THE_WORKTREE, *shared)), (places.common, _SHARED)):
        for name in names:
            if is_real(home / name, stat.S_IFREG):
                (directory / name).symlink_to(home / name)


def at_hand(root: Path) -> str:
    """The git on this machine, not one of the project at `root`. `GitFailed`: there is none."""
    git = shutil.which("git", path=_environment(root)["PATH"])
    if git is None:
        raise GitFailed("Git is not installed.")
    return git


def configured(made: Room, own: bytes) -> tuple[Pairs, Pairs]:
    """The settings of the user, and of a repository from the text of its configuration without what that includes."""
    environment = _environment(made.root) | _FIXED
    asking = [made.git, "config", "--null", "--list"]
    nowhere = {"GIT_DIR": str(made.directory / "none"), "GIT_CEILING_DIRECTORIES": str(made.directory)}
    users = read_pairs(_answer([*asking, "--includes"], made.directory, environment | nowhere, b"", 5.0))
    named = [*asking, "--no-includes", "--file", "-"]
    ours = _only_ours(made.directory) | nowhere
    repository = read_pairs(_answer(named, made.directory, environment | ours, own, 5.0))
    return _with_files_of(users, environment), repository


def _with_files_of(users: Pairs, environment: dict[str, str]) -> Pairs:
    """The names of the user's own files, absolute, with those that count when none is named."""
    home = environment.get("HOME", "/")
    directory = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    plain: Pairs = [
        ("core.excludesfile", f"{directory}/git/ignore"),
        ("core.attributesfile", f"{directory}/git/attributes"),
    ]
    return plain + [
        (name, f"{home}{value[1:]}" if value and value.startswith("~/") else value) for name, value in users
    ]


def own_text(places: Places) -> bytes:
    """The text of a repository's configuration."""
    return b"\n".join((_text(places.common / "config"), _text(places.own / "config.worktree")))


def _text(path: Path) -> bytes:
    try:
        return read_small(path)
    except OSError:
        return b""


def _leads_to(places: Places, worktree: str) -> bool:
    return bool(worktree) and (places.own / worktree).resolve() == places.root


def _environment(root: Path) -> dict[str, str]:
    """An allow-list; on PATH is nothing of the project: its git is not ours."""
    entries = [each for each in os.environ.get("PATH", "").split(os.pathsep) if each.startswith("/")]
    outside = [each for each in entries if not Path(each).resolve().is_relative_to(root)]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"PATH": os.pathsep.join(outside) or SYSTEM_PATH}


def _only_ours(directory: Path) -> dict[str, str]:
    """Neither the system's nor the user's configuration: a git before 2.32 finds the latter by these directories."""
    nowhere = str(directory / "none")
    return {
        "HOME": nowhere,
        "XDG_CONFIG_HOME": nowhere,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
    }


def _answer(command: Sequence[str], cwd: Path, environment: dict[str, str], stdin: bytes, seconds: float) -> bytes:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdin=given, stdout=subprocess.PIPE, stderr=said
            )
        except OSError as error:
            raise GitFailed(f"Git can't be started: {error.strerror}.") from error
        with process:
            assert process.stdout is not None
            timer = Timer(seconds, process.kill)
            timer.start()
            try:
                answer = process.stdout.read(MOST + 1)
                if len(answer) > MOST:
                    process.kill()
            finally:
                process.stdout.close()
                code = process.wait()
                timer.cancel()
        if code != 0:
            said.seek(0)
            lines = said.read(2000).decode("utf-8", "replace").splitlines()
            why = "; ".join(each for each in lines if each.strip() and not each.startswith("hint:"))
            why = why or f"it ended with {code}"
            raise GitFailed(f"Git gave no answer to {command[2]!r}: {why}")
    return answer
