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
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_VARIABLE: Final = re.compile(
    r"\$\{?(CLAUDE_PROJECT_DIR|CURSOR_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|HOME|PWD)(?::-[^}]*)?\}?"
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
    values = {"HOME": str(Path.home()), "CLAUDE_PLUGIN_ROOT": hook.home}

    def expand(found: re.Match[str]) -> str:
        return values.get(found[1], str(root))

    path = _VARIABLE.sub(expand, word)
    if "$" in path:
        return None
    if path.startswith("~/"):
        path = str(Path.home() / path[2:])
    return Path(os.path.normpath(Path(hook.home or root) / path))


def list_script_files(hook: Hook, root: Path) -> tuple[Path, ...]:
    """Return the files of the project that a hook's command names, and those that stand with them in a folder of hooks.

    They are what is trusted with the hook. Reads directories.
    """
    found: dict[Path, None] = {}
    for word in _WORD.findall(hook.command):
        path = _locate(word, hook, root)
        if path is None or not path.is_relative_to(root) or not path.is_file():
            continue
        found[path] = None
        if HOOKS_FOLDER in path.relative_to(root).parts[:-1]:
            folder = next(each for each in path.parents if each.name == HOOKS_FOLDER)
            below = (each for each in sorted(folder.rglob("*")) if each.is_file() and "__pycache__" not in each.parts)
            found |= dict.fromkeys(islice(below, MAX_FILES))
    return tuple(found)[:MAX_FILES]


def explain_missing(hook: Hook, root: Path) -> str:
    """Return what is missing of a hook's script, "" = nothing, or it can't be told."""
    script = find_script(hook, root)
    if script is None or script.is_file():
        return ""
    return f"{MISSING}: {script.relative_to(root) if script.is_relative_to(root) else script}"
