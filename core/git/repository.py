"""The one module that runs git: on a directory of ours that stands for the repository, with our configuration.

A repository can name programs in many places of its configuration (filters, monitors, hooks, transports of a partial
clone …), under names that it chooses. None of them is overridden: git never reads that configuration. The directory
that it is given holds a configuration file of ours (`core.git.safe_config`) and links to the parts that hold data.
"""

from __future__ import annotations

import os
import re
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
from core.git.index import knows_files_of
from core.git.layout import RepositoryLayout, find_layout, find_repository, is_of_type, read_small_file
from core.git.safe_config import ConfigPairs, find_last, parse_pairs, render_config
from core.git.temporary_directories import make_temporary_directory

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_OUTPUT_BYTES = 64 << 20  # bytes of an answer
_MAX_INDEX_BYTES = 256 << 20
_FIRST_BRANCH = "main"
_PASSED_ON = ("HOME", "XDG_CONFIG_HOME")
_USERS_SETTINGS = re.compile(r"GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|PARAMETERS|COUNT|KEY_\d+|VALUE_\d+)")
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
        """Run git, with `variables` environment variables; return what it prints. Raises `GitFailed`, also in
        time-outs, and for an exit code that is none of `accepts`."""
        environment = _build_environment(self.root) | _FIXED_ENVIRONMENT | _hide_other_configs(self.directory)
        environment |= {"GIT_DIR": str(self.directory), "GIT_WORK_TREE": str(self.root), **(variables or {})}
        return _run_git([self.git, "--no-pager", *arguments], self.root, environment, stdin, seconds, accepts)


@contextmanager
def open_repository(root: Path, *, may_be_above: bool = False) -> Iterator[GitRepository | None]:
    """Open the repository whose top is `root`, a real path; None: there is none, or it belongs to another project.

    `may_be_above`: also one that `root` lies in. Raises `GitFailed` without git, or if the configuration can't be read.
    """
    places = find_repository(root) if may_be_above else find_layout(root)
    if places is None:
        yield None
        return
    with make_temporary_directory() as directory:
        git_repository = GitRepository(find_git(root), directory, places.root)
        users, repository = read_settings(git_repository, read_config_text(places))
        is_ours = _is_believed(places, repository)
        if is_ours:
            populate(git_repository, places, render_config(users, repository, places.head))
        yield git_repository if is_ours else None


def find_believed_repository(directory: Path) -> RepositoryLayout | None:
    """Return the repository that `directory`, a real path, is the top of or lies in, if it says so too.

    Raises `GitFailed`, and OSError.
    """
    places = find_repository(directory)
    if places is None or not places.is_unconfirmed:
        return places
    with make_temporary_directory() as nowhere:
        _, settings = read_settings(GitRepository(find_git(directory), nowhere, places.root), read_config_text(places))
        return places if _is_believed(places, settings) else None


def _is_believed(places: RepositoryLayout, settings: ConfigPairs) -> bool:
    """True if the repository confirms that the work tree is its own: by `core.worktree`, or without that by an index
    which knows the very files that lie there (after `--separate-git-dir` nothing else leads back)."""
    if not places.is_unconfirmed:
        return True
    if worktree := find_last(settings, "core.worktree"):
        return (places.own / worktree).resolve() == places.root
    try:
        return knows_files_of(read_small_file(places.own / "index", _MAX_INDEX_BYTES), places.root)
    except OSError:
        return False


def read_identity(workspace: Path, places: RepositoryLayout | None) -> dict[str, dict[str, str]]:
    """Return name and email of the user's configuration by section (`user`, `author`, `committer`), for commits in this
    repository: `includeIf` is heeded.

    Git is told the repository's place and branch, and that it shares our directory, in which there is no configuration.
    """
    with make_temporary_directory() as directory:
        for name in ("objects", "refs"):
            (directory / name).mkdir()
        location = {"GIT_DIR": str(places.own), "GIT_COMMON_DIR": str(directory)} if places else {}
        environment = _build_environment(workspace) | _FIXED_ENVIRONMENT | _name_nowhere(directory) | location
        command = [find_git(workspace), "config", "--null", "--list", "--includes"]
        settings = parse_pairs(_run_git(command, directory, environment, b"", 5.0))
    identity = {section: _select_identity(settings, section) for section in ("user", "author", "committer")}
    return {section: names for section, names in identity.items() if names}


def _select_identity(settings: ConfigPairs, section: str) -> dict[str, str]:
    values = {name: find_last(settings, f"{section}.{name}") for name in ("name", "email")}
    return {name: value for name, value in values.items() if value and value.isprintable()}


def _name_nowhere(directory: Path) -> dict[str, str]:
    return {"GIT_DIR": str(directory / "none"), "GIT_CEILING_DIRECTORIES": str(directory)}


def populate(repository: GitRepository, places: RepositoryLayout, configuration: str) -> None:
    """Fill the directory of a repository: our configuration, and links to data. Raises OSError."""
    directory = repository.directory
    (directory / "config").write_text(configuration, encoding="utf-8", errors="surrogateescape")
    (directory / "HEAD").write_bytes(places.head)
    (directory / "info").mkdir()
    for name in ("objects", "refs", "reftable"):
        if is_of_type(places.common / name, stat.S_IFDIR):
            (directory / name).symlink_to(places.common / name)
    shared_names = [path.name for path in places.own.glob("sharedindex.*")]
    for home, names in ((places.own, (*_WORKTREE_FILES, *shared_names)), (places.common, _SHARED_FILES)):
        for name in names:
            if is_of_type(home / name, stat.S_IFREG):
                (directory / name).symlink_to(home / name)


def create_repository(root: Path, message: str, *, name: str, email: str) -> None:
    """Make `root`, a directory of ours that is in no repository, one whose first commit holds all that lies there.

    Later commits are of `name` and `email` too, so that git makes them where the user told it no name yet. Raises
    `GitFailed`.
    """
    repository = GitRepository(find_git(root), root / ".git", root)
    repository.run("init", "--quiet", "--template=")
    repository.run("symbolic-ref", "HEAD", f"refs/heads/{_FIRST_BRANCH}")
    repository.run("config", "user.name", name)
    repository.run("config", "user.email", email)
    repository.run("add", "--all")
    repository.run("commit", "--quiet", f"--message={message}")


def find_git(root: Path) -> str:
    """Return the git of this machine, never one of the project at `root`. Raises `GitFailed` if there is none."""
    git = shutil.which("git", path=_build_environment(root)["PATH"])
    if git is None:
        raise GitFailed("Git is not installed.")
    return git


def read_settings(repository: GitRepository, config_text: bytes) -> tuple[ConfigPairs, ConfigPairs]:
    """Return the user's settings, and a repository's from the text of its configuration without its includes."""
    environment = _build_environment(repository.root) | _FIXED_ENVIRONMENT
    asking = [repository.git, "config", "--null", "--list"]
    nowhere = _name_nowhere(repository.directory)
    users = parse_pairs(_run_git([*asking, "--includes"], repository.directory, environment | nowhere, b"", 5.0))
    file_command = [*asking, "--no-includes", "--file", "-"]
    own_environment = _hide_other_configs(repository.directory) | nowhere
    own_pairs = parse_pairs(
        _run_git(file_command, repository.directory, environment | own_environment, config_text, 5.0)
    )
    return _add_default_files(users, environment), own_pairs


def _add_default_files(users: ConfigPairs, environment: dict[str, str]) -> ConfigPairs:
    """Return the names of the user's own files, absolute, with git's defaults if none is named."""
    home = environment.get("HOME", "/")
    directory = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    plain: ConfigPairs = [
        ("core.excludesfile", f"{directory}/git/ignore"),
        ("core.attributesfile", f"{directory}/git/attributes"),
    ]
    return plain + [
        (name, f"{home}{value[1:]}" if value and value.startswith("~/") else value) for name, value in users
    ]


def read_config_text(places: RepositoryLayout) -> bytes:
    """Return the text of a repository's configuration."""
    return b"\n".join((_read_text(places.common / "config"), _read_text(places.own / "config.worktree")))


def _read_text(path: Path) -> bytes:
    try:
        return read_small_file(path)
    except OSError:
        return b""


def _build_environment(root: Path) -> dict[str, str]:
    """Return an allow-listed environment; nothing of the project is on PATH: its git is not ours."""
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    outside = [entry for entry in entries if not Path(entry).resolve().is_relative_to(root)]
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
            raise GitFailed(f"Git gave no answer to {command[2]!r}: {reason}")
    return answer
