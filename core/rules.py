"""Rules that a project gives its agent: `AGENTS.md` files and `.cursor/rules/**/*.mdc`.

They are read from the workspace itself, so a rule that an agent proposes binds nobody before the user accepts it. They
are text from a repository: bounded, strictly UTF-8, and without characters that a reader of the file would not see;
what was stripped is counted and reported. A rule that can't be read is noted and left out; nothing here is fatal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from core.errors import PathRefused
from core.permissions.voices import Hears, everything
from core.protocol.events import LoadedRule
from core.workspace import Workspace

AGENTS_FILE = "AGENTS.md"
RULES_DIRECTORY = ".cursor/rules"
MAX_RULE_BYTES = 32 * 1024
MAX_TOTAL_BYTES = 128 * 1024
MAX_RULES = 200
MAX_DEPTH = 6
UNHEARD = "it is not as it was when you trusted this project"
MAX_WILDCARDS = 6  # more of them could keep the matcher busy for minutes; such a pattern matches nothing

RuleKind = Literal["always", "globs", "agents_md"]


class Rule(Struct, frozen=True, kw_only=True):
    """One rule's text, cleaned. `globs` are the patterns of a glob rule; `note` says what was stripped or cut."""

    path: str
    kind: RuleKind
    text: str
    globs: tuple[str, ...] = ()
    description: str = ""
    note: str = ""

    def applies_to(self, path: str) -> bool:
        return any(_glob(pattern).fullmatch(path) is not None for pattern in self.globs)


class RuleSet(Struct, frozen=True, kw_only=True):
    """`always` is meant for the system prompt; `scoped` joins when a file that it speaks of does.

    `problems` name the files that could not be read, each with the reason.
    """

    always: tuple[Rule, ...] = ()
    scoped: tuple[Rule, ...] = ()
    problems: tuple[LoadedRule, ...] = ()

    def loaded(self) -> tuple[LoadedRule, ...]:
        """For the `rules.loaded` event: what binds from the start, and what could not be read."""
        return tuple(as_loaded(rule) for rule in self.always) + self.problems


def as_loaded(rule: Rule) -> LoadedRule:
    return LoadedRule(path=rule.path, kind=rule.kind, note=rule.note)


def speaks(path: str) -> bool:
    """Whether a workspace-relative path is that of a rule, by its spelling."""
    return path.rpartition("/")[2] == AGENTS_FILE or (path.startswith(f"{RULES_DIRECTORY}/") and path.endswith(".mdc"))


def load_rules(workspace: Workspace, hears: Hears = everything) -> RuleSet:
    """Every rule of the workspace but nested `AGENTS.md` files, in the order of their paths. `hears`: whether the bytes
    of a file may be interpreted."""
    always: list[Rule] = []
    scoped: list[Rule] = []
    problems: list[LoadedRule] = []
    left = MAX_TOTAL_BYTES
    for path in [AGENTS_FILE, *rule_files(workspace)]:
        loaded = read_rule(workspace, path, hears)
        if loaded is None:
            continue
        if isinstance(loaded, Rule) and len(loaded.text.encode()) > left:
            loaded = _problem(path, f"left out: all rules together are larger than {MAX_TOTAL_BYTES // 1024} KiB")
        match loaded:
            case LoadedRule():
                problems.append(loaded)
            case Rule():
                left -= len(loaded.text.encode())
                (scoped if loaded.kind == "globs" else always).append(loaded)
    return RuleSet(always=tuple(always), scoped=tuple(scoped), problems=tuple(problems))


def nested_agents(workspace: Workspace, paths: Iterable[str], hears: Hears = everything) -> Iterator[Rule | LoadedRule]:
    """The `AGENTS.md` nearest above each path, but for the workspace's own; each once."""
    done: set[str] = set()
    for path in paths:
        directory = path
        while "/" in directory:
            directory = directory.rpartition("/")[0]
            if directory in done:
                break
            done.add(directory)
            found = read_rule(workspace, f"{directory}/{AGENTS_FILE}", hears)
            if found is not None:
                yield found
                break


def rule_bytes(workspace: Workspace, path: str) -> bytes:
    """As much of a rule as is ever interpreted. Raises `PathRefused`."""
    return workspace.read_bytes(path, MAX_RULE_BYTES + 1)


def read_rule(workspace: Workspace, path: str, hears: Hears = everything) -> Rule | LoadedRule | None:
    """One rule file: the rule, or what is wrong with it, or None when there is nothing that binds."""
    try:
        data = rule_bytes(workspace, path)
    except PathRefused as refused:
        return None if refused.code == "not_found" else _problem(path, refused.message)
    if not hears(path, data):
        return _problem(path, UNHEARD)
    notes = []
    if len(data) > MAX_RULE_BYTES:
        data = data[:MAX_RULE_BYTES].rpartition(b"\n")[0]
        notes.append(f"cut after {MAX_RULE_BYTES // 1024} KiB")
    try:
        raw = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _problem(path, f"not UTF-8 (byte {error.start})")
    text, stripped = clean(raw)
    notes += stripped
    front, body = _split(text) if path.endswith(".mdc") else ({}, text)
    return _rule(path, front, body.strip(), "; ".join(notes))


def _rule(path: str, front: dict[str, str | list[str]], body: str, note: str) -> Rule | None:
    if not body:
        return None
    globs = tuple(_patterns(front.get("globs", ""))) if path.endswith(".mdc") else ()
    kind: RuleKind = "agents_md"
    if path.endswith(".mdc"):
        kind = "always" if str(front.get("alwaysApply", "")).lower() == "true" else "globs"
        if kind == "globs" and not globs:
            return None
    description = str(front.get("description", ""))
    return Rule(path=path, kind=kind, text=body, globs=globs, description=description, note=note)


def _problem(path: str, reason: str) -> LoadedRule:
    kind: RuleKind = "always" if path.endswith(".mdc") else "agents_md"
    return LoadedRule(path=path, kind=kind, note=f"not loaded: {reason}")


def rule_files(workspace: Workspace) -> list[str]:
    """The paths of the rules in `.cursor/rules`, sorted."""
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
            if entry.kind == "directory" and depth < MAX_DEPTH:
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


def clean(text: str) -> tuple[str, list[str]]:
    """The text as a reader sees it, and what was stripped: "3 zero-width characters stripped"."""
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


def _split(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Front matter and body. Not YAML: `globs: *.py, src/**` is what people write, and no YAML."""
    found = _FRONT.match(text)
    if found is None:
        return {}, text
    front: dict[str, str | list[str]] = {}
    key = ""
    for line in found["front"].splitlines():
        item = line.strip()
        if assignment := _KEY.fullmatch(line.rstrip()):
            key = assignment["key"]
            front[key] = _scalar(assignment["value"])
        elif key and item.startswith("- "):
            present = front[key]
            front[key] = [*(present if isinstance(present, list) else []), _scalar(item[2:])]
    return front, text[found.end() :]


def _scalar(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _patterns(globs: str | list[str]) -> Iterator[str]:
    """The patterns of a string ("a, b"), a flow list ("[a, b]") or a list; commas within braces do not part."""
    for item in globs if isinstance(globs, list) else re.split(r",(?![^{]*\})", globs.strip().strip("[]")):
        if pattern := _scalar(item):
            yield pattern.removeprefix("./")


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression over workspace-relative paths; one without a slash matches in any directory."""
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
