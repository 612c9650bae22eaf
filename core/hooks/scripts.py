"""The scripts that the commands of hooks name: whether they are there, and which files of the user's they are.

An interpreter that is given a script which is gone often ends with the very exit code that refuses, so that one missing
file would lock every tool. It is found before anything runs.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from core.hooks.parsing import Hook

_PREFIXES: Final = frozenset({"exec", "command", "time", "nohup", "env", "uv", "poetry", "pipx", "npx", "bunx", "run"})
_INTERPRETER: Final = re.compile(r"(?:bash|sh|zsh|dash|node|deno|bun|python[\d.]*|ruby|perl|php|tsx)")
_WORD: Final = re.compile(r"[^\s'\"=;|&<>()`]+")
HOOKS_FOLDER: Final = "hooks"  # a folder of this name belongs to the scripts in it as a whole
MISSING: Final = "its script is not there"
MAX_FILES: Final = 100  # of all that a hook's command starts
MAX_WORDS: Final = 200  # of a command that may be paths
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_VARIABLE: Final = re.compile(
    r"\$\{?(CLAUDE_PROJECT_DIR|CURSOR_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|CURSOR_PLUGIN_ROOT|HOME|PWD)(?::-[^}]*)?\}?"
)
_SHELL_SIGNS: Final = frozenset({";", "&&", "||", "|", "&", "(", ")", "{", "}", "<", ">"})


def find_script(hook: Hook, root: Path) -> Path | None:
    """Find the file that a hook's command starts, by its words alone; None = it is a program, or it can't be told.

    It need not be there.
    """
    words = list(_iterate_words(hook.command))
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _PREFIXES):
        words.pop(0)
    if not words:
        return None
    name = words[0].rpartition("/")[2]
    if _INTERPRETER.fullmatch(name):
        words = words[1:] if words[1:2] != ["run"] else words[2:]
        if words and words[0].startswith("-"):  # -c and its like: the script is in the words themselves
            return None
    if not words or not _is_path(words[0]):
        return None
    return _locate(words[0], hook, root)


def _is_path(word: str) -> bool:
    return "/" in word and not word.startswith("-") and "://" not in word and not any(sign in word for sign in "*?`\n")


def _iterate_words(command: str) -> Iterator[str]:
    """Iterate over the words of the first simple command; none for what can't be split."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        for word in lexer:
            if word in _SHELL_SIGNS or set(word) <= set("();<>|&"):
                return
            yield word
    except ValueError:
        return


def _locate(word: str, hook: Hook, root: Path) -> Path | None:
    values = {"HOME": str(Path.home()), "CLAUDE_PLUGIN_ROOT": hook.home, "CURSOR_PLUGIN_ROOT": hook.home}

    def expand(match: re.Match[str]) -> str:
        return values.get(match[1], str(root))

    path = _VARIABLE.sub(expand, word)
    if "$" in path:
        return None
    if path.startswith("~/"):
        path = str(Path.home() / path[2:])
    return Path(os.path.normpath(Path(hook.directory or root) / path))


def list_script_files(hook: Hook, root: Path) -> tuple[Path, ...]:
    """Return the files of the project that a hook's command names, and those that stand with them in a folder of hooks.

    They are what is trusted with the hook, so a file too many is a question too many, and one too few is a guard that
    anybody changes. Reads directories.
    """
    files: dict[Path, None] = {}
    for path in _iterate_named_paths(hook, root):
        if path in files or not path.is_relative_to(root) or not _is_file(path):
            continue
        files[path] = None
        if HOOKS_FOLDER in path.relative_to(root).parts[:-1]:
            folder = next(parent for parent in path.parents if parent.name == HOOKS_FOLDER)
            below = (file for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
            files |= dict.fromkeys(islice(below, MAX_FILES))
    return tuple(files)[:MAX_FILES]


def _iterate_named_paths(hook: Hook, root: Path) -> Iterator[Path]:
    """Iterate over the paths that a command may mean, whatever quotes, variables or substitutions stand before them,
    and over those below a folder that it names."""
    words = _list_possible_words(hook.command)
    folders = [root, *([Path(hook.home)] if hook.home else [])]
    for word in words:
        if (path := _locate(word, hook, root)) is not None:
            yield path
            folders += [path] if path.is_relative_to(root) and _is_directory(path) else []
    for folder in dict.fromkeys(folders):
        for word in words:
            tail = word.partition("/")[2] if word.startswith(("/", "$")) else word
            yield Path(os.path.normpath(folder / tail.lstrip("/")))


def _list_possible_words(command: str) -> list[str]:
    """List the words of a command as a shell may see them: cut at its signs, without quotes, with blanks in them."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    plain = command.replace("'", "").replace('"', "")
    return list(dict.fromkeys((*_WORD.findall(command), *_WORD.findall(plain), *words)))[:MAX_WORDS]


def _is_file(path: Path) -> bool:
    """True if it is a file; a word that is too long for a name, such as a script within the command, is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def explain_missing(hook: Hook, root: Path) -> str:
    """Return what is missing of a hook's script, "" = nothing, or it can't be told."""
    script = find_script(hook, root)
    if script is None or _is_file(script):
        return ""
    return f"{MISSING}: {script.relative_to(root) if script.is_relative_to(root) else script}"
