"""The only module that runs git: on a directory of the program that stands for the repository, with its configuration.

A repository can name programs in many settings (filters, monitors, hooks, transports of a partial clone …), under names
that it chooses. None of them is overridden: git never reads that configuration. Its directory contains a configuration
file of this program (`core.git.safe_config`) and links to the parts that hold data.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Timer

from msgspec import Struct

from core.errors import AgentTuiError
from core.filesystem.name_spelling import resolve_spelled
from core.git.index import matches_files_of
from core.git.layout import RepositoryLayout, find_layout, find_repository, is_of_type, read_small_file
from core.git.safe_config import ConfigPairs, find_last, parse_pairs, render_config
from core.git.temporary_directories import make_temporary_directory
from core.patterns import compile_lazily
from core.search_paths import find_git as find_program

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_OUTPUT_BYTES = 64 << 20  # bytes of an answer
_MAX_INDEX_BYTES = 256 << 20
_FIRST_BRANCH = "main"
_PASSED_ON = ("HOME", "XDG_CONFIG_HOME")
_USERS_SETTINGS = compile_lazily(r"GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|PARAMETERS|COUNT|KEY_\d+|VALUE_\d+)")
_FIXED_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_ATTR_NOSYSTEM": "1",
}
_WORKTREE_FILES = ("index", "info/sparse-checkout")
_SHARED_FILES = ("packed-refs", "shallow", "info/exclude", "info/attributes")


_LOCATIONS = ("GIT_DIR", "GIT_CEILING_DIRECTORIES")
_SETTLED_NS = 2_000_000_000
"""A file that changed later than this before it was read may change again without a new time."""
Stamps = dict[str, tuple[int, int, int, int] | None]


class _UsersSettings(Struct, frozen=True):
    """Settings of the user with what they were read from: the environment, and the files with their stamps."""

    environment: dict[str, str]
    stamps: Stamps
    pairs: ConfigPairs


_users_settings: dict[str, _UsersSettings] = {}  # by the path of git


class GitFailed(AgentTuiError):
    """Git is not installed, failed or took too long."""

    code = "git_failed"


class GitRepository(Struct, frozen=True):
    """A repository that git can be run on safely; valid while `open_repository` is open.

    `directory` stands for the repository; `root` is the worktree.
    """

    git: str
    directory: Path
    root: Path

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        seconds: float = 10.0,
        variables: dict[str, str] | None = None,
        accepts: Sequence[int] = (0,),
    ) -> bytes:
        """Run git, with `variables` as additional environment variables; return its output. Raises `GitFailed`, also
        for a time-out and for an exit code that is not in `accepts`."""
        environment = _build_environment(self.root) | _FIXED_ENVIRONMENT | _hide_other_configs(self.directory)
        environment |= {"GIT_DIR": str(self.directory), "GIT_WORK_TREE": str(self.root), **(variables or {})}
        return _run_git([self.git, "--no-pager", *arguments], self.root, environment, stdin, seconds, accepts)


@contextmanager
def open_repository(root: Path, *, may_be_above: bool = False) -> Iterator[GitRepository | None]:
    """Open the repository whose top is `root`, a real path; None = there is none, or it belongs to another project.

    `may_be_above`: also one around `root`. Raises `GitFailed` without git, or if the configuration can't be read.
    """
    layout = find_repository(root) if may_be_above else find_layout(root)
    if layout is None:
        yield None
        return
    with make_temporary_directory() as directory:
        git_repository = GitRepository(find_git(root), directory, layout.root)
        users, repository = read_settings(git_repository, read_config_text(layout))
        is_ours = _is_confirmed(layout, repository)
        if is_ours:
            populate(git_repository, layout, render_config(users, repository, layout.head))
        yield git_repository if is_ours else None


def find_confirmed_repository(directory: Path) -> RepositoryLayout | None:
    """Return the repository around `directory`, a real path, if it confirms that; None = there is none.

    Raises `GitFailed`, and OSError.
    """
    layout = find_repository(directory)
    if layout is None or not layout.is_unconfirmed:
        return layout
    with make_temporary_directory() as nowhere:
        _, settings = read_settings(GitRepository(find_git(directory), nowhere, layout.root), read_config_text(layout))
        return layout if _is_confirmed(layout, settings) else None


def _is_confirmed(layout: RepositoryLayout, settings: ConfigPairs) -> bool:
    """True if the repository confirms that the work tree is its own: by `core.worktree`, or without that by an index
    that matches the files there (after `--separate-git-dir` nothing else leads back)."""
    if not layout.is_unconfirmed:
        return True
    if worktree := find_last(settings, "core.worktree"):
        return (layout.own / worktree).resolve() == layout.root
    try:
        return matches_files_of(read_small_file(layout.own / "index", _MAX_INDEX_BYTES), layout.root)
    except OSError:
        return False


def read_identity(workspace: Path, layout: RepositoryLayout | None) -> dict[str, dict[str, str]]:
    """Return name and email of the user's configuration by section (`user`, `author`, `committer`), for commits in this
    repository, `includeIf` included.

    Git gets the path and the branch of the repository, and a common directory without a configuration.
    """
    with make_temporary_directory() as directory:
        for name in ("objects", "refs"):
            (directory / name).mkdir()
        location = {"GIT_DIR": str(layout.own), "GIT_COMMON_DIR": str(directory)} if layout else {}
        environment = _build_environment(workspace) | _FIXED_ENVIRONMENT | _point_nowhere(directory) | location
        command = [find_git(workspace), "config", "--null", "--list", "--includes"]
        settings = parse_pairs(_run_git(command, directory, environment, b"", 5.0))
    identity = {section: _select_identity(settings, section) for section in ("user", "author", "committer")}
    return {section: names for section, names in identity.items() if names}


def _select_identity(settings: ConfigPairs, section: str) -> dict[str, str]:
    values = {name: find_last(settings, f"{section}.{name}") for name in ("name", "email")}
    return {name: value for name, value in values.items() if value and value.isprintable()}


def _point_nowhere(directory: Path) -> dict[str, str]:
    return {"GIT_DIR": str(directory / "none"), "GIT_CEILING_DIRECTORIES": str(directory)}


def populate(repository: GitRepository, layout: RepositoryLayout, configuration: str) -> None:
    """Fill the directory of a repository: our configuration, and links to data. Raises OSError."""
    directory = repository.directory
    (directory / "config").write_text(configuration, encoding="utf-8", errors="surrogateescape")
    (directory / "HEAD").write_bytes(layout.head)
    (directory / "info").mkdir()
    for name in ("objects", "refs", "reftable"):
        if is_of_type(layout.common / name, stat.S_IFDIR):
            (directory / name).symlink_to(layout.common / name)
    shared_names = [path.name for path in layout.own.glob("sharedindex.*")]
    for home, names in ((layout.own, (*_WORKTREE_FILES, *shared_names)), (layout.common, _SHARED_FILES)):
        for name in names:
            if is_of_type(home / name, stat.S_IFREG):
                (directory / name).symlink_to(home / name)


def create_repository(root: Path, message: str, *, name: str, email: str) -> None:
    """Make `root`, a directory of ours in no repository, a repository whose first commit contains all of its files.

    Later commits are of `name` and `email` too, so that git works without an identity of the user. Raises `GitFailed`.
    """
    repository = GitRepository(find_git(root), root / ".git", root)
    repository.run("init", "--quiet", "--template=")
    repository.run("symbolic-ref", "HEAD", f"refs/heads/{_FIRST_BRANCH}")
    repository.run("config", "user.name", name)
    repository.run("config", "user.email", email)
    repository.run("add", "--all")
    repository.run("commit", "--quiet", f"--message={message}")


def find_git(root: Path) -> str:
    """Return the git of this machine, never one in the project at `root`. Raises `GitFailed` if there is none."""
    git = find_program(_build_environment(root)["PATH"])
    if git is None:
        raise GitFailed("Git is not installed.")
    return git


def read_settings(repository: GitRepository, config_text: bytes) -> tuple[ConfigPairs, ConfigPairs]:
    """Return the user's settings, and a repository's from the text of its configuration without its includes."""
    environment = _build_environment(repository.root) | _FIXED_ENVIRONMENT | _point_nowhere(repository.directory)
    return (
        _add_default_files(_read_users_settings(repository, environment), environment),
        list(_parse_config(repository.git, config_text)),
    )


def _read_users_settings(repository: GitRepository, environment: Mapping[str, str]) -> ConfigPairs:
    """Return the settings of the user and the system. They are asked for again only if a file of them has changed, or
    if that can't be known."""
    known = _users_settings.get(repository.git)
    fixed = {name: value for name, value in environment.items() if name not in _LOCATIONS}
    if known is not None and known.environment == fixed and known.stamps == _stamp_files(known.stamps):
        return known.pairs
    home, started_ns = environment.get("HOME", "/"), time.time_ns()
    directory = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    system = ("/etc/gitconfig", str(Path(repository.git).parents[1] / "etc/gitconfig"))
    before = _stamp_files((*system, f"{home}/.gitconfig", f"{directory}/git/config"))
    command = [repository.git, "config", "--null", "--list", "--includes", "--show-origin"]
    fields = _run_git(command, repository.directory, dict(environment), b"", 5.0).split(b"\0")[:-1]
    pairs = parse_pairs(b"".join(field + b"\0" for field in fields[1::2]))
    origins = {os.fsdecode(origin.removeprefix(b"file:")) for origin in fields[::2]}
    stamps = _stamp_files({*before, *origins})
    is_settled = all(stamp is None or stamp[0] < started_ns - _SETTLED_NS for stamp in stamps.values())
    has_more_files = any(name.startswith("include") for name, _ in pairs) or not all(
        origin.startswith("/") for origin in origins
    )
    names_others = any(_USERS_SETTINGS.fullmatch(name) for name in environment)
    if is_settled and not has_more_files and not names_others and before.items() <= stamps.items():
        _users_settings[repository.git] = _UsersSettings(fixed, stamps, pairs)
    return pairs


def _stamp_files(paths: Iterable[str]) -> Stamps:
    """Return what changes with the content of files, the time of the change first; None = there is no such file."""
    stamps: Stamps = {}
    for path in paths:
        try:
            stats = Path(path).stat()
            stamps[path] = (stats.st_ctime_ns, stats.st_mtime_ns, stats.st_size, stats.st_ino)
        except OSError:
            stamps[path] = None
    return stamps


@lru_cache(maxsize=32)
def _parse_config(git: str, config_text: bytes) -> tuple[tuple[str, str | None], ...]:
    """Parse the text of a configuration without its includes; the same text has the same settings."""
    with make_temporary_directory() as nowhere:
        command = [git, "config", "--null", "--list", "--no-includes", "--file", "-"]
        environment = _FIXED_ENVIRONMENT | _hide_other_configs(nowhere) | _point_nowhere(nowhere)
        return tuple(parse_pairs(_run_git(command, nowhere, environment | {"PATH": SYSTEM_PATH}, config_text, 5.0)))


def _add_default_files(users: ConfigPairs, environment: dict[str, str]) -> ConfigPairs:
    """Return the settings with absolute names of the user's files, git's defaults first."""
    home = environment.get("HOME", "/")
    directory = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    plain: ConfigPairs = [
        ("core.excludesfile", f"{directory}/git/ignore"),
        ("core.attributesfile", f"{directory}/git/attributes"),
    ]
    return plain + [
        (name, f"{home}{value[1:]}" if value and value.startswith("~/") else value) for name, value in users
    ]


def read_config_text(layout: RepositoryLayout) -> bytes:
    """Return the text of a repository's configuration."""
    return b"\n".join((_read_text(layout.common / "config"), _read_text(layout.own / "config.worktree")))


def _read_text(path: Path) -> bytes:
    try:
        return read_small_file(path)
    except OSError:
        return b""


def _build_environment(root: Path) -> dict[str, str]:
    """Return an allow-listed environment without directories of the project on PATH: its git is not trusted."""
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    outside = [entry for entry in entries if not resolve_spelled(Path(entry)).is_relative_to(root)]
    base_environment = {
        name: value for name, value in os.environ.items() if name in _PASSED_ON or _USERS_SETTINGS.fullmatch(name)
    }
    return base_environment | {"PATH": os.pathsep.join(outside) or SYSTEM_PATH}


def _hide_other_configs(directory: Path) -> dict[str, str]:
    """Hide the configuration of the system, of the user and of the environment: a git before 2.32 finds the user's by
    these directories."""
    nowhere = str(directory / "none")
    return {
        "HOME": nowhere,
        "XDG_CONFIG_HOME": nowhere,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": "0",
        "GIT_CONFIG_PARAMETERS": "",
    }


def _run_git(
    command: Sequence[str],
    cwd: Path,
    environment: dict[str, str],
    stdin: bytes,
    seconds: float,
    accepts: Sequence[int] = (0,),
) -> bytes:
    with tempfile.TemporaryFile() as stdin_file, tempfile.TemporaryFile() as stderr_file:
        stdin_file.write(stdin)
        stdin_file.seek(0)
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdin=stdin_file, stdout=subprocess.PIPE, stderr=stderr_file
            )
        except OSError as error:
            raise GitFailed(f"Git can't be started: {error.strerror}.") from error
        with process:
            assert process.stdout is not None
            timer = Timer(seconds, process.kill)
            timer.start()
            try:
                answer = process.stdout.read(MAX_OUTPUT_BYTES + 1)
                if len(answer) > MAX_OUTPUT_BYTES:
                    process.kill()
            finally:
                process.stdout.close()
                code = process.wait()
                timer.cancel()
        if code not in accepts:
            stderr_file.seek(0)
            lines = stderr_file.read(2000).decode("utf-8", "replace").splitlines()
            reason = "; ".join(line for line in lines if line.strip() and not line.startswith("hint:"))
            reason = reason or f"it ended with {code}"
            raise GitFailed(f"Git did not answer {command[2]!r}: {reason}")
    return answer
