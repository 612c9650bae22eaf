"""Rules that deny and ask in the configuration of other agents: Claude Code, Cursor's CLI, opencode.

They can only narrow: what these files allow grants nothing here. Each is translated exactly, or named as unused with
the reason. A pattern that means two things becomes two rules (`git push:*` is `git push` and `git push *`). In opencode
the last matching entry wins, so a laxer one further down is an exception of the rules above it; a project's file can't
make an exception to the user's.

The files of a project are read once it is trusted. Their present content needs no confirmation, unlike that of other
instructions: it can take something away from the agent, and give it nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.clock import monotonic
from core.patterns import compile_lazily
from core.permissions.rules import MAX_STARS, PermissionChoice, PermissionKind, PermissionRule
from core.records import decode_json
from core.text.json_repairs import to_strict_json
from core.text.path_patterns import is_costly

MAX_BYTES: Final = 512 * 1024
MAX_RULES: Final = 500  # of one file
CHECK_SECONDS: Final = 1.0  # between two looks at the files
CLAUDE_FILES: Final = ("~/.claude/settings.json", ".claude/settings.json", ".claude/settings.local.json")
CURSOR_FILES: Final = ("~/.cursor/cli-config.json", ".cursor/cli.json")
OPENCODE_FILES: Final = (
    "~/.config/opencode/opencode.json",
    "~/.config/opencode/opencode.jsonc",
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
)
FILES: Final = (*CLAUDE_FILES, *CURSOR_FILES, *OPENCODE_FILES)
OUTSIDE: Final = "outside the project, where the agent neither reads nor writes"
NO_COUNTERPART: Final = "nothing here corresponds to it"
_RULE: Final = compile_lazily(r"(?P<tool>[A-Za-z_][\w-]*(?:\*)?)(?:\((?P<spec>.*)\))?", re.DOTALL)
_MCP: Final = compile_lazily(r"mcp__(?P<server>.+?)(?:__(?P<tool>.+))?")
_HOST: Final = compile_lazily(r"\*|(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_PARAMETER: Final = compile_lazily(r"(?:run_in_background|dangerouslyDisableSandbox|timeout|description):.*")
_PATH_TOOLS: Final[Mapping[str, PermissionKind]] = {
    "Read": "Read",
    "Edit": "Write",
    "Write": "Write",
    "MultiEdit": "Write",
    "NotebookEdit": "Write",
}
# Permissions of opencode with a counterpart; the others are named if they restrict something.
_OPENCODE_KINDS: Final[Mapping[str, PermissionKind]] = {
    "bash": "Shell",
    "edit": "Write",
    "read": "Read",
    "webfetch": "WebFetch",
}
_OPENCODE_TOOLS: Final = {"write": "edit", "patch": "edit", "multiedit": "edit"}
_OPENCODE_ACTIONS: Final = {"shell": "bash", "subagent": "task"}  # The second version's names of permissions.
_OPENCODE_OTHERS: Final = frozenset(
    [
        *("glob", "grep", "list", "task", "skill", "lsp", "todowrite", "todoread", "question"),
        *("websearch", "codesearch", "doom_loop", "external_directory"),
    ]
)
_CHOICES: Final[tuple[PermissionChoice, ...]] = ("allow", "ask", "deny")
_Entry = tuple[str, list[tuple[str, PermissionChoice]]]  # A permission, and what its patterns say, in order.


class Unused(Struct, frozen=True):
    """An entry that has no effect here, with the reason."""

    entry: str
    reason: str


class ForeignRules(Struct, frozen=True):
    """The rules of one file, and its entries that restrict something and can't be followed."""

    rules: tuple[PermissionRule, ...] = ()
    unused: tuple[Unused, ...] = ()


class Untranslatable(ValueError):
    """An entry has no counterpart. The text is the reason."""


def parse_foreign_rules(path: str, data: bytes, root: Path) -> ForeignRules:
    """Translate the rules of one of `FILES`. `root`: the project, which paths are relative to."""
    try:
        document = decode_json(to_strict_json(data))
    except (msgspec.MsgspecError, RecursionError):
        return ForeignRules(unused=(Unused("", "it is not valid JSON"),))
    if not isinstance(document, dict):
        return ForeignRules(unused=(Unused("", "it is not an object"),))
    if path in OPENCODE_FILES:
        return _parse_opencode(path, document, root)
    permissions = document.get("permissions")
    if not isinstance(permissions, dict):
        return ForeignRules()
    translate = _translate_claude if path in CLAUDE_FILES else _translate_cursor
    rules: list[PermissionRule] = []
    unused: list[Unused] = []
    choices: tuple[PermissionChoice, ...] = ("deny", "ask") if path in CLAUDE_FILES else ("deny",)
    for choice in choices:
        entries = permissions.get(choice)
        for entry in entries[:MAX_RULES] if isinstance(entries, list) else []:
            try:
                rules += [_build(choice, kind, pattern, path) for kind, pattern in translate(str(entry).strip(), root)]
            except Untranslatable as problem:
                unused.append(Unused(f"{choice} {str(entry)[:100]}", str(problem)))
    return ForeignRules(tuple(rules), tuple(unused))


def _build(choice: PermissionChoice, kind: PermissionKind, pattern: str, source: str) -> PermissionRule:
    if kind in {"Read", "Write"} and is_costly(pattern):
        raise Untranslatable("its pattern has too many wildcards")
    if pattern.count("*") > MAX_STARS * 2:
        raise Untranslatable("its pattern has too many stars")
    return PermissionRule(choice=choice, kind=kind, pattern=pattern, source=source)


# Claude Code


def _translate_claude(entry: str, root: Path) -> Iterator[tuple[PermissionKind, str]]:
    match = _RULE.fullmatch(entry)
    if match is None:
        raise Untranslatable("it is not a rule")
    tool, spec = match["tool"], match["spec"]
    if tool == "Bash":
        if spec is not None and _PARAMETER.fullmatch(spec):
            raise Untranslatable(NO_COUNTERPART)
        yield from (("Shell", pattern) for pattern in _expand_command(spec or "*"))
    elif tool in _PATH_TOOLS:
        yield _PATH_TOOLS[tool], "**" if spec in {None, "*", "**"} else _translate_claude_path(spec or "", root)
    elif tool == "WebFetch":
        yield "WebFetch", _translate_host("*" if spec is None else spec, "domain:")
    elif tool.startswith("mcp__") and spec is None and (server := _MCP.fullmatch(tool)) is not None:
        yield "Mcp", f"{server['server']}:{server['tool'] or '*'}"
    else:
        raise Untranslatable(NO_COUNTERPART)


def _expand_command(pattern: str) -> Iterator[str]:
    """Return the patterns of a command: a blank and a star at the end also match nothing."""
    text = f"{pattern[:-2]} *" if pattern.endswith(":*") else pattern
    if text in {"*", "**", " *"}:
        yield "*"
        return
    yield text
    if text.endswith(" *") and text.count("*") == 1:
        yield text[:-2]


def _translate_claude_path(spec: str, root: Path) -> str:
    """Translate a path in gitignore's syntax: `//x` is absolute, `/x` relative to the project's top."""
    if spec.startswith("!"):
        raise Untranslatable("exceptions are not supported")
    if spec.startswith("//"):
        return _place_path(spec[1:], root)
    if spec.startswith("~"):
        return _place_path(spec, root)
    return spec.removeprefix("./") or "**"


def _place_path(path: str, root: Path) -> str:
    """Return a pattern for an absolute path as one below the project's top. Raises `Untranslatable` for others."""
    absolute_path = os.path.normpath(Path(path).expanduser()) + ("/" if path.endswith("/") else "")
    top = str(root)
    if absolute_path.startswith(f"{top}/"):
        return absolute_path[len(top) :]
    head = re.split(r"[*?\[{]", absolute_path, maxsplit=1)[0]
    if head != absolute_path and f"{top}/".startswith(head):
        return "**"  # a wildcard that may cover the project
    if f"{top}/".startswith(absolute_path.rstrip("/") + "/"):
        return "**"
    raise Untranslatable(OUTSIDE)


def _translate_host(spec: str, prefix: str = "") -> str:
    if prefix and spec != "*" and not spec.startswith(prefix):
        raise Untranslatable("it does not name a host")
    host = spec.removeprefix(prefix)
    if not _HOST.fullmatch(host):
        raise Untranslatable("it does not name a host")
    return host.lower()


# Cursor's CLI


def _translate_cursor(entry: str, root: Path) -> Iterator[tuple[PermissionKind, str]]:
    match = _RULE.fullmatch(entry)
    tool, spec = (match["tool"], (match["spec"] or "").strip()) if match is not None else ("", "")
    if not spec:
        raise Untranslatable("it is not a rule")
    if tool == "Shell":
        base, colon, arguments = spec.partition(":")
        text = f"{base} {arguments}" if colon and arguments not in {"*", "**"} else f"{base} *"
        yield from (("Shell", pattern) for pattern in _expand_command("*" if base in {"*", "**"} else text))
    elif tool in {"Read", "Write"}:
        kind: PermissionKind = "Read" if tool == "Read" else "Write"
        yield kind, _place_path(spec, root) if spec.startswith(("/", "~")) else spec.removeprefix("./")
    elif tool == "WebFetch":
        yield "WebFetch", _translate_host(spec)
    elif tool == "Mcp":
        server, separator, name = spec.partition(":") if ":" in spec else spec.partition(",")
        yield "Mcp", f"{server.strip()}:{name.strip() if separator else '*'}"
    else:
        raise Untranslatable(NO_COUNTERPART)


# opencode


def _parse_opencode(path: str, document: Mapping[str, Any], root: Path) -> ForeignRules:
    """Translate the permissions of both versions. Where a file has both, the stricter one counts."""
    rules: list[PermissionRule] = []
    unused: list[Unused] = []
    for entries in (_list_first_entries(document, unused), _list_second_entries(document, unused)):
        for name, kind in _OPENCODE_KINDS.items():
            rows = [row for key, key_rows in entries for row in key_rows if _covers(key, name)]
            try:
                rules += _build_ordered(kind, rows, path, root)
            except Untranslatable as problem:
                unused.append(Unused(f"permission.{name}", str(problem)))
        for key in dict.fromkeys(key for key, _ in entries):
            choices = [choice for other, key_rows in entries if other == key for _, choice in key_rows]
            rules += _build_for_key(key, max(["allow", *choices], key=_CHOICES.index), path, unused)
    return ForeignRules(tuple(rules[:MAX_RULES]), tuple(unused))


def _build_for_key(key: str, strictest: PermissionChoice, path: str, unused: list[Unused]) -> Iterator[PermissionRule]:
    """Build the rules of a permission that stands for a server's tool; others without a counterpart are named."""
    if strictest == "allow" or key in _OPENCODE_KINDS or set("*?") >= set(key):
        return
    if key in _OPENCODE_OTHERS or "_" not in key:
        unused.append(Unused(f"permission.{key}", NO_COUNTERPART))
        return
    yield from (_build(strictest, "Mcp", pattern, path) for pattern in _split_tool(key))


def _list_first_entries(document: Mapping[str, Any], unused: list[Unused]) -> list[_Entry]:
    """Return the switches of `tools`, and the table `permission`, which counts before them."""
    tools, table = document.get("tools"), document.get("permission")
    switches = tools.items() if isinstance(tools, dict) else ()
    entries = {str(_OPENCODE_TOOLS.get(name, name)): _list_rows("deny") for name, is_on in switches if is_on is False}
    if table is not None and not isinstance(table, dict | str):
        unused.append(Unused("permission", "its form is not known"))
    own = table if isinstance(table, dict) else {"*": table} if isinstance(table, str) else {}
    entries |= {str(name): _list_rows(value) for name, value in own.items()}
    return list(entries.items())


def _list_second_entries(document: Mapping[str, Any], unused: list[Unused]) -> list[_Entry]:
    """Return the rules of the list `permissions`, in order, under the names of the first version."""
    rules = document.get("permissions")
    if rules is not None and not isinstance(rules, list):
        unused.append(Unused("permissions", "its form is not known"))
    entries: list[_Entry] = []
    for rule in rules[:MAX_RULES] if isinstance(rules, list) else ():
        texts = [rule.get(key) for key in ("action", "resource", "effect")] if isinstance(rule, dict) else [None]
        if all(isinstance(text, str) for text in texts):
            action, resource, effect = map(str, texts)
            entries.append((_OPENCODE_ACTIONS.get(action, action), _list_rows({resource: effect})))
        else:
            unused.append(Unused("permissions", "a rule needs action, resource and effect, as texts"))
    return entries


def _covers(key: str, name: str) -> bool:
    """True if a key of the table is a permission's name or a pattern of it."""
    return (
        re.fullmatch(".*".join(".".join(map(re.escape, part.split("?"))) for part in key.split("*")), name) is not None
    )


def _list_rows(value: Any) -> list[tuple[str, PermissionChoice]]:
    """Return the patterns of an entry with what they say, in order; unknown words are left out."""
    table = {"*": value} if isinstance(value, str) else value if isinstance(value, dict) else {}
    return [(str(pattern), choice) for pattern, word in table.items() for choice in _CHOICES if choice == word]


def _build_ordered(
    kind: PermissionKind, rows: list[tuple[str, PermissionChoice]], source: str, root: Path
) -> Iterable[PermissionRule]:
    """Build the rules of rows of which the last matching one wins."""
    for number, (pattern, choice) in enumerate(rows):
        if choice == "allow":
            continue
        laxer = [other for other, word in rows[number + 1 :] if _CHOICES.index(word) < _CHOICES.index(choice)]
        if any(set(other) == {"*"} for other in laxer):
            continue
        exceptions = [text for other in laxer for text in _translate_exception(kind, other, root)]
        for text in _translate_opencode(kind, pattern, root):
            rule = _build(choice, kind, text, source)
            yield msgspec.structs.replace(rule, exceptions=tuple(exceptions))


def _translate_exception(kind: PermissionKind, pattern: str, root: Path) -> Iterator[str]:
    """Translate an exception; one that can't be translated exempts nothing."""
    try:
        if "?" not in pattern:
            yield from _translate_opencode(kind, pattern, root)
    except Untranslatable:
        return


def _translate_opencode(kind: PermissionKind, pattern: str, root: Path) -> Iterator[str]:
    """Translate a pattern in which `*` matches any characters, slashes too, and `?` one."""
    if kind == "Shell":
        yield from _expand_command(pattern.replace("?", "*"))
    elif kind == "WebFetch":
        if set(pattern) != {"*"}:
            raise Untranslatable("a pattern of addresses is not supported, only a whole yes or no")
        yield "*"
    elif set(pattern) == {"*"}:
        yield "**"
    else:
        text = re.sub(r"\*+", "**", pattern)
        home = text.replace("$HOME", "~", 1) if text.startswith("$HOME") else text
        yield _place_path(home, root) if home.startswith(("/", "~")) else f"/{text}"


def _split_tool(key: str) -> Iterator[str]:
    """Return the patterns of a tool `server_tool`, whose name may be split at any underscore."""
    for match in re.finditer("_", key):
        if 0 < match.start() < len(key) - 1:
            yield f"{key[: match.start()]}:{key[match.end() :]}"


# the files


class ForeignPermissions:
    """The rules of other agents' files for one project, read again when a file has changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._checked_at = 0.0
        self._signature: tuple[object, ...] | None = None
        self._rules: tuple[PermissionRule, ...] = ()

    def load(self, *, is_trusted: bool) -> tuple[PermissionRule, ...]:
        """Return the rules: those of the user, and those of a trusted project."""
        if (
            self._signature is not None
            and self._signature[0] == is_trusted
            and monotonic() - self._checked_at < CHECK_SECONDS
        ):
            return self._rules
        self._checked_at = monotonic()
        signature = (is_trusted, *(_stat(self._locate(path)) for path in list_foreign_files(is_trusted=is_trusted)))
        if signature != self._signature:
            self._signature = signature
            files = self.read(is_trusted=is_trusted)
            self._rules = tuple(rule for _, foreign_rules in files for rule in foreign_rules.rules)
        return self._rules

    def read(self, *, is_trusted: bool) -> list[tuple[str, ForeignRules]]:
        """Read the files that exist, with their paths as the user knows them."""
        contents = ((path, self._read_file(path)) for path in list_foreign_files(is_trusted=is_trusted))
        return [(path, parse_foreign_rules(path, data, self._root)) for path, data in contents if data is not None]

    def _locate(self, path: str) -> Path:
        return Path(path).expanduser() if path.startswith("~") else self._root / path

    def _read_file(self, path: str) -> bytes | None:
        location = self._locate(path)
        try:
            is_own = path.startswith("~")
            if not location.is_file() or (not is_own and not location.resolve().is_relative_to(self._root)):
                return None
            with location.open("rb") as file:
                return file.read(MAX_BYTES)
        except (OSError, RuntimeError):
            return None


def list_foreign_files(*, is_trusted: bool) -> tuple[str, ...]:
    """Return the paths of files that may be read."""
    return FILES if is_trusted else tuple(path for path in FILES if path.startswith("~"))


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        stats = path.stat()
    except (OSError, RuntimeError):
        return None
    return stats.st_mtime_ns, stats.st_size
