"""Rules that a project gives its agent: `AGENTS.md` files and `.cursor/rules/**/*.mdc`.

They are read from the workspace itself, so a rule that an agent proposes binds nobody before the user accepts it. They
are text from a repository: bounded, strictly UTF-8, and without characters that a reader of the file would not see;
what was stripped is counted and reported. An unreadable rule is noted and left out; nothing here is fatal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from core.errors import PathRefused
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.protocol.events import LoadedRule
from core.workspace import Workspace

AGENTS_FILE_NAME = "AGENTS.md"
RULES_DIRECTORY = ".cursor/rules"
MAX_RULE_BYTES = 32 * 1024
MAX_TOTAL_BYTES = 128 * 1024
MAX_RULES = 200
MAX_DIRECTORY_DEPTH = 6
UNTRUSTED_REASON = "it is not as it was when you trusted this project"
MAX_WILDCARDS = 6  # more of them could keep the matcher busy for minutes; such a pattern matches nothing

ProjectRuleKind = Literal["always", "globs", "agents_md"]


class ProjectRule(Struct, frozen=True, kw_only=True):
    """One rule's text, cleaned. `globs` are the patterns of a glob rule; `note` says what was stripped or cut."""

    path: str
    kind: ProjectRuleKind
    text: str
    globs: tuple[str, ...] = ()
    description: str = ""
    note: str = ""

    def applies_to(self, path: str) -> bool:
        return any(_compile_glob(pattern).fullmatch(path) is not None for pattern in self.globs)


class ProjectRules(Struct, frozen=True, kw_only=True):
    """`always` belongs into the system prompt; `scoped` joins when a file that it matches does. `problems` name the
    files that could not be read, each with the reason."""

    always: tuple[ProjectRule, ...] = ()
    scoped: tuple[ProjectRule, ...] = ()
    problems: tuple[LoadedRule, ...] = ()

    def list_loaded(self) -> tuple[LoadedRule, ...]:
        """Return the rules for `rules.loaded`: what binds from the start, and what could not be read."""
        return tuple(to_loaded_rule(rule) for rule in self.always) + self.problems


def to_loaded_rule(rule: ProjectRule) -> LoadedRule:
    return LoadedRule(path=rule.path, kind=rule.kind, note=rule.note)


def is_rule_path(path: str) -> bool:
    """True if a workspace-relative path is that of a rule, by its spelling."""
    return path.rpartition("/")[2] == AGENTS_FILE_NAME or (
        path.startswith(f"{RULES_DIRECTORY}/") and path.endswith(".mdc")
    )


def load_rules(workspace: Workspace, is_trusted: TrustCheck = trust_everything) -> ProjectRules:
    """Load every rule of the workspace that is trusted, but for nested `AGENTS.md` files, in the order of paths."""
    always: list[ProjectRule] = []
    scoped: list[ProjectRule] = []
    problems: list[LoadedRule] = []
    left = MAX_TOTAL_BYTES
    for path in [AGENTS_FILE_NAME, *find_rule_files(workspace)]:
        loaded = read_rule(workspace, path, is_trusted)
        if loaded is None:
            continue
        if isinstance(loaded, ProjectRule) and len(loaded.text.encode()) > left:
            loaded = _build_problem(path, f"left out: all rules together are larger than {MAX_TOTAL_BYTES // 1024} KiB")
        match loaded:
            case LoadedRule():
                problems.append(loaded)
            case ProjectRule():
                left -= len(loaded.text.encode())
                (scoped if loaded.kind == "globs" else always).append(loaded)
    return ProjectRules(always=tuple(always), scoped=tuple(scoped), problems=tuple(problems))


def find_nested_rules(
    workspace: Workspace, paths: Iterable[str], is_trusted: TrustCheck = trust_everything
) -> Iterator[ProjectRule | LoadedRule]:
    """Iterate over the `AGENTS.md` nearest above each path, but for the workspace's own; each once."""
    done: set[str] = set()
    for path in paths:
        directory = path
        while "/" in directory:
            directory = directory.rpartition("/")[0]
            if directory in done:
                break
            done.add(directory)
            found = read_rule(workspace, f"{directory}/{AGENTS_FILE_NAME}", is_trusted)
            if found is not None:
                yield found
                break


def read_rule_bytes(workspace: Workspace, path: str) -> bytes:
    """Read as much of a rule as is ever interpreted. Raises `PathRefused`."""
    return workspace.read_bytes(path, MAX_RULE_BYTES + 1)


def read_rule(
    workspace: Workspace, path: str, is_trusted: TrustCheck = trust_everything
) -> ProjectRule | LoadedRule | None:
    """Read one rule file. Returns the rule, or its problem, or None when there is nothing that binds."""
    try:
        data = read_rule_bytes(workspace, path)
    except PathRefused as refused:
        return None if refused.code == "not_found" else _build_problem(path, refused.message)
    if not is_trusted(path, data):
        return _build_problem(path, UNTRUSTED_REASON)
    notes = []
    if len(data) > MAX_RULE_BYTES:
        data = data[:MAX_RULE_BYTES].rpartition(b"\n")[0]
        notes.append(f"cut after {MAX_RULE_BYTES // 1024} KiB")
    try:
        raw = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _build_problem(path, f"not UTF-8 (byte {error.start})")
    text, stripped = strip_invisible(raw)
    notes += stripped
    front, body = _split_front_matter(text) if path.endswith(".mdc") else ({}, text)
    return _build_rule(path, front, body.strip(), "; ".join(notes))


def _build_rule(path: str, front: dict[str, str | list[str]], body: str, note: str) -> ProjectRule | None:
    if not body:
        return None
    globs = tuple(_parse_globs(front.get("globs", ""))) if path.endswith(".mdc") else ()
    kind: ProjectRuleKind = "agents_md"
    if path.endswith(".mdc"):
        kind = "always" if str(front.get("alwaysApply", "")).lower() == "true" else "globs"
        if kind == "globs" and not globs:
            return None
    description = str(front.get("description", ""))
    return ProjectRule(path=path, kind=kind, text=body, globs=globs, description=description, note=note)


def _build_problem(path: str, reason: str) -> LoadedRule:
    kind: ProjectRuleKind = "always" if path.endswith(".mdc") else "agents_md"
    return LoadedRule(path=path, kind=kind, note=f"not loaded: {reason}")


def find_rule_files(workspace: Workspace) -> list[str]:
    """Return the paths of the rules in `.cursor/rules`, sorted."""
    found: list[str] = []
    waiting = [(RULES_DIRECTORY, 0)]
    while waiting and len(found) < MAX_RULES:
        directory, depth = waiting.pop()
        try:
            entries = workspace.list_dir(directory)
        except PathRefused:
            continue
        for entry in entries:
            path = f"{directory}/{entry.name}"
            if entry.kind == "directory" and depth < MAX_DIRECTORY_DEPTH:
                waiting.append((path, depth + 1))
            elif entry.kind == "file" and entry.name.endswith(".mdc"):
                found.append(path)
    return sorted(found)[:MAX_RULES]


# What a reader of the file would not see, and what it is called when it is counted.
_INVISIBLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("HTML comment", re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)),
    ("Unicode tag character", re.compile("[\U000e0000-\U000e007f]")),
    ("variation selector", re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef\u180b-\u180d\u180f]")),
    ("bidirectional control", re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")),
    (
        "zero-width character",
        re.compile("[\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\u00ad\u034f\u115f\u1160\u3164]"),
    ),
    ("control character", re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")),
)


def strip_invisible(text: str) -> tuple[str, list[str]]:
    """Return the text as a reader sees it, and what was stripped: "3 zero-width characters stripped"."""
    notes = []
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    # Characters first: one hidden within `<!-` `-` must not hide a comment from its pattern.
    for name, pattern in (*_INVISIBLE[1:], _INVISIBLE[0]):
        text, count = pattern.subn("", text)
        if count:
            notes.append(f"{count} {name}{'s' if count > 1 else ''} stripped")
    return text, notes


_FRONT = re.compile(r"\A---[ \t]*\n(?P<front>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"(?P<key>[A-Za-z_]\w*)\s*:\s*(?P<value>.*)")


def _split_front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Split front matter and body. Not YAML: `globs: *.py, src/**` is what people write, and no YAML."""
    found = _FRONT.match(text)
    if found is None:
        return {}, text
    front: dict[str, str | list[str]] = {}
    key = ""
    for line in found["front"].splitlines():
        item = line.strip()
        if assignment := _KEY.fullmatch(line.rstrip()):
            key = assignment["key"]
            front[key] = _unquote(assignment["value"])
        elif key and item.startswith("- "):
            present = front[key]
            front[key] = [*(present if isinstance(present, list) else []), _unquote(item[2:])]
    return front, text[found.end() :]


def _unquote(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _parse_globs(globs: str | list[str]) -> Iterator[str]:
    """Parse globs from a string ("a, b"), a flow list ("[a, b]") or a list; commas within braces do not part."""
    for item in globs if isinstance(globs, list) else re.split(r",(?![^{]*\})", globs.strip().strip("[]")):
        if pattern := _unquote(item):
            yield pattern.removeprefix("./")


@lru_cache(maxsize=512)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob over workspace-relative paths; one without a slash matches in any directory."""
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    elif pattern.endswith("/"):
        pattern += "**"
    tokens = re.findall(r"(?:\*\*/)+|\*+|\?|\{|\}|,|[^*?{},]+", pattern.lstrip("/"))
    if sum("*" in token for token in tokens) > MAX_WILDCARDS:
        return re.compile("(?!)")
    out, braces = [], 0
    for token in tokens:
        if token.endswith("**/"):
            out.append("(?:.*/)?")
        elif set(token) == {"*"}:
            out.append("[^/]*" if len(token) == 1 else ".*")
        elif token == "{":
            braces += 1
            out.append("(?:")
        elif token == "}" and braces:
            braces -= 1
            out.append(")")
        else:
            out.append({"?": "[^/]", ",": "|" if braces else ","}.get(token, re.escape(token)))
    return re.compile("".join(out) + ")" * braces)
