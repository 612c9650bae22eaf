"""Which calls of a module can change a file or start a program: read from its syntax tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

from tests.contract.source_tree import Function, Module, imports


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# By which a call is known; a call of a method is known by its name alone, whatever it is called on.
OF_OS = words(
    "chmod chown copy_file_range fchmod fchown ftruncate lchown link makedirs mkdir mkfifo mknod posix_fallocate "
    "posix_spawn posix_spawnp remove removedirs removexattr rename renames replace rmdir sendfile setxattr symlink "
    "system truncate unlink utime fork forkpty popen startfile"
)
OF_SHUTIL = words("chown copy copy2 copyfile copyfileobj copymode copystat copytree make_archive move rmtree")
METHODS = words(
    "chmod hardlink_to lchmod mkdir rename rmdir symlink_to touch unlink write_bytes write_text make_directories "
    "remove_directories write_atomic bind start_unix_server create_unix_server create_subprocess_exec "
    "create_subprocess_shell subprocess_exec subprocess_shell execute"
)
OURS = words(
    "remove_tree replace_file stream_replacement create_file open_beneath open_by_walking exchange_names "
    "move_to_free_name"
)
MODULES = words("ctypes dbm git gzip mmap multiprocessing pty shelve sqlite3 subprocess tarfile tempfile")
MODULES |= words("webbrowser zipfile")
READING_FLAGS = frozenset({"DIRECTORY"})  # of core.filesystem.open_beneath
WRITING_FLAGS = words("O_WRONLY O_RDWR O_CREAT O_TRUNC O_APPEND O_TMPFILE")


@dataclass(frozen=True)
class Effect:
    """One call (or import) that can change a file: in which function, and what."""

    where: str
    what: str


@cache
def writing(module: Module) -> tuple[Effect, ...]:
    effects = [Effect("<module>", f"import {top}") for top in sorted(imported(module) & MODULES)]
    _walk(module.tree, "<module>", effects, _flags_of(module))
    return tuple(effects)


def imported(module: Module) -> set[str]:
    return {statement.target.partition(".")[0] for statement in imports(module) if not statement.typing_only}


def _flags_of(module: Module) -> dict[str, ast.expr]:
    """What names stand for, so that `os.open(path, _FLAGS)` can be read."""
    return {
        target.id: node.value
        for node in module.nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _walk(node: ast.AST, where: str, effects: list[Effect], names: dict[str, ast.expr]) -> None:
    for child in ast.iter_child_nodes(node):
        inside = where
        if isinstance(child, Function | ast.ClassDef):
            inside = child.name if where == "<module>" else f"{where}.{child.name}"
        if isinstance(child, ast.Call) and (what := _effect(child, names)):
            effects.append(Effect(where, what))
        _walk(child, inside, effects, names)


def _effect(call: ast.Call, names: dict[str, ast.expr]) -> str:
    match call.func:
        case ast.Name(name):
            return name if _is_effect(name, call, names) else ""
        case ast.Attribute(ast.Name("os" | "shutil" as module), name):
            return f"{module}.{name}" if _is_effect_of(module, name, call, names) else ""
        case ast.Attribute(_, name):
            return f".{name}" if _is_effect_on_a_path(name, call) else ""
    return ""


def _is_effect(name: str, call: ast.Call, names: dict[str, ast.expr]) -> bool:
    if name == "open":
        return _is_writing_mode(call, 1) or _wraps_descriptor(call)
    return name in OURS and not (name.startswith("open_") and _only_reads(call, names))


def _is_effect_of(module: str, name: str, call: ast.Call, names: dict[str, ast.expr]) -> bool:
    if module == "shutil":
        return name in OF_SHUTIL
    if name == "open":
        return not _only_reads(call, names)
    return name in OF_OS or name.startswith(("exec", "spawn"))


def _is_effect_on_a_path(name: str, call: ast.Call) -> bool:
    if name == "open":
        return _is_writing_mode(call, 0)
    if name == "replace":  # text is replaced by two arguments, a record by keywords
        return len(call.args) == 1 and not call.keywords
    return name in METHODS


def _is_writing_mode(call: ast.Call, place: int) -> bool:
    """Whether it opens for writing. The mode of `path.open` stands first, where other methods have other words."""
    keyword_values = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    expressions = keyword_values + [
        arg for arg in call.args[place : place + 1] if place or isinstance(arg, ast.Constant)
    ]
    modes = [str(expression.value) if isinstance(expression, ast.Constant) else "w" for expression in expressions]
    return any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes)


def _wraps_descriptor(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Call)


def _only_reads(call: ast.Call, names: dict[str, ast.expr]) -> bool:
    """Whether the flags open nothing for writing; what can't be read here might."""
    waiting = call.args[1 if isinstance(call.func, ast.Attribute) else 2 :][:1]
    waiting += [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    seen: set[str] = set()
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Attribute) and node.attr in WRITING_FLAGS:
                return False
            if not isinstance(node, ast.Name) or node.id in {"os", *READING_FLAGS, *seen}:
                continue
            if node.id not in names:
                return False
            seen.add(node.id)
            waiting.append(names[node.id])
    return True
