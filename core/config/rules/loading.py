"""Loading of all rules of the user and of a project, with their imports, in the order in which they bind.

The user's own rules come first, then those of the project from its top down to the workspace, then those of folders
below that contain files at hand: the nearer to a file, the later. Rules are read from disk, never from the shadow, so
an agent's proposal binds nobody before the user accepts it. A file that can't be read is noted and skipped.

`@path` in the text of a rule imports that file, except within code. Only a lookup tells which words after an `@` are
files: `@Injectable` and `@types/node` are not.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from core.config.rules.file_text import (
    FrontMatter,
    UnreadableRule,
    decode_rule,
    get_text,
    is_unclosed,
    parse_patterns,
    split_front_matter,
)
from core.config.rules.notes import ProjectNotes
from core.config.rules.roots import (
    COPILOT_SUFFIX,
    HOME_FILES,
    HOME_RULE_DIRECTORIES,
    INSTRUCTION_FILES,
    OVERRIDE,
    RULE_DIRECTORIES,
    ProjectRoot,
    RuleRoot,
    UserRoot,
    list_directories_above,
    list_rule_files,
)
from core.config.rules.rule import AgentRule, RuleFiles
from core.errors import PathRefused, StateError
from core.patterns import compile_lazily
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.protocol.events import LoadedRule, RuleKind
from core.text.markup import Fence, track_fence
from core.workspace import Workspace
from core.workspace.secret_files import may_be_secret

MAX_HOPS = 4
MAX_IMPORTS = 30
EVERY_FILE = frozenset({"*", "**", "**/*"})
NO_FILE = frozenset({"not_found", "not_a_file", "path_escapes"})
PROSE = (".md", ".mdc", ".mdx", ".txt", ".rst")
_REFERENCE = compile_lazily(r"(?<![\w@./`\\-])@(~?[\w.\-/][^\s`\"'<>|,;:()\[\]{}*]*)")
_CODE_SPAN = compile_lazily(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
UNTRUSTED_REASON = "it has changed since you trusted this project"


def load_rule_files(
    workspace: Workspace,
    is_trusted: TrustCheck | None = trust_everything,
    *,
    nearby_paths: Iterable[str] = (),
) -> RuleFiles:
    """Load the rules for work in a workspace, including those for `nearby_paths` (workspace-relative).

    `is_trusted` None: no file of the project is read.
    """
    home, user = _Loader(UserRoot(Path.home()), trust_everything), _Loader(UserRoot(), trust_everything)
    for source in _list_home_sources(home.root):
        home.load(source)
    for source in _list_user_sources(user.root):
        user.load(source)
    user.load_notes(workspace.root)
    user_rules, user_problems = (*home.rules, *user.rules), (*home.problems, *user.problems)
    if is_trusted is None:
        return RuleFiles(rules=user_rules, problems=user_problems)
    project_root = ProjectRoot(workspace)
    project = _Loader(project_root, is_trusted)
    for directory in _list_directories(project_root.here, nearby_paths):
        for source in _list_sources(project_root, directory):
            project.load(source)
    problems = (*user_problems, *project.problems)
    return RuleFiles(rules=(*user_rules, *project.rules), problems=problems, here=project_root.here)


def _list_directories(current_directory: str, nearby_paths: Iterable[str]) -> Iterator[str]:
    """Iterate over the directories that may have rules, from the project's top downwards."""
    inside = (
        f"{current_directory}/{path}" if current_directory else path
        for path in nearby_paths
        if not path.startswith(("/", "../"))
    )
    above = [directory for path in inside for directory in list_directories_above(path)]
    start = [*list_directories_above(f"{current_directory}/x" if current_directory else "x")]
    yield from dict.fromkeys((*start, *sorted(above, key=lambda directory: (directory.count("/"), directory))))


def _list_home_sources(rule_root: RuleRoot) -> Iterator[_Source]:
    """Iterate over the files that the user wrote for other agents."""
    for directory, names in HOME_FILES:
        try:
            present = {name for name, is_directory in rule_root.list_names(directory) if not is_directory}
        except PathRefused:
            continue
        if (name := next((name for name in names if name in present), None)) is not None:
            yield _Source(f"{directory}/{name}", "")
    for rules, suffix in HOME_RULE_DIRECTORIES:
        for path in list_rule_files(rule_root, rules, suffix):
            yield _Source(path, "")


def _list_user_sources(rule_root: RuleRoot) -> Iterator[_Source]:
    yield _Source("AGENTS.md", "")
    for path in list_rule_files(rule_root, "rules", ".mdc"):
        yield _Source(path, "")


def _list_sources(rule_root: RuleRoot, directory: str) -> Iterator[_Source]:
    """Iterate over the rule files of one directory, in their order."""
    prefix = f"{directory}/" if directory else ""
    try:
        present = {name for name, _ in rule_root.list_names(directory)}
    except PathRefused:
        return
    for name in INSTRUCTION_FILES:
        if name.partition("/")[0] in present and not (name == "AGENTS.md" and OVERRIDE in present):
            yield _Source(f"{prefix}{name}", directory, _describe_neighbours(name, present))
    for rules, suffix in RULE_DIRECTORIES:
        if rules.partition("/")[0] in present:
            for path in list_rule_files(rule_root, f"{prefix}{rules}", suffix):
                yield _Source(path, directory)


def _describe_neighbours(name: str, present: Set[str]) -> str:
    if name == OVERRIDE and "AGENTS.md" in present:
        return "replaces AGENTS.md beside it"
    return "loaded after AGENTS.md beside it" if "CLAUDE" in name and present & {OVERRIDE, "AGENTS.md"} else ""


class _Source(Struct, frozen=True):
    """A rule file to read: its path, the directory it applies to, and a remark."""

    path: str
    scope: str
    about: str = ""


class _Loader(Struct, eq=False):
    """The rules of one root so far."""

    root: RuleRoot
    is_trusted: TrustCheck
    rules: list[AgentRule] = field(default_factory=list)
    problems: list[LoadedRule] = field(default_factory=list)

    def load(self, source: _Source) -> None:
        """Read a rule file and its imports."""
        try:
            data = self.root.read(source.path)
        except PathRefused as refused:
            if refused.code != "not_found":
                self._add_problem(source.path, refused.message)
            return
        if refusal := self._refuse(self.root.show(source.path), data):
            self._add_problem(source.path, refusal)
        elif (rule := self._parse(source, data)) is not None:
            self._add_with_imports(rule, source.path)

    def _refuse(self, display_path: str, data: bytes) -> str:
        if may_be_secret(display_path.rpartition("/")[2]):
            return "its name suggests secrets"
        return "" if not self.root.is_project or self.is_trusted(display_path, data) else UNTRUSTED_REASON

    def _parse(self, source: _Source, data: bytes) -> AgentRule | None:
        try:
            text, notes = decode_rule(data)
        except UnreadableRule as problem:
            self._add_problem(source.path, str(problem))
            return None
        front: FrontMatter = {}
        if _has_front_matter(source.path):
            if is_unclosed(text):
                notes.append("its front matter does not end with ---, so it is not loaded")
            front, text = split_front_matter(text)
        if not (body := text.strip()):
            return None
        globs = tuple(pattern for key in ("globs", "paths", "applyTo") for pattern in parse_patterns(front, key))
        description = get_text(front, "description")
        return AgentRule(
            path=self.root.show(source.path),
            kind=_classify(source.path, front, globs, description),
            text=body,
            globs=globs,
            description=description,
            scope=source.scope,
            note="; ".join(notes),
            about=source.about,
        )

    def _add_with_imports(self, rule: AgentRule, path: str) -> None:
        reader = ImportReader(self.root, self._refuse)
        imported_rules = [
            imported_rule
            for import_file in reader.read(path, rule.text)
            if (imported_rule := self._import(rule, *import_file)) is not None
        ]
        rule = replace(rule, note="; ".join(filter(None, (rule.note, *reader.problems))))
        if has_own_text(rule.text) or not imported_rules:
            self.rules.append(rule)
        elif rule.note:
            self._add_problem(path, rule.note)
        self.rules += imported_rules

    def _import(self, rule: AgentRule, path: str, data: bytes, importer: str) -> AgentRule | None:
        try:
            text, notes = decode_rule(data)
        except UnreadableRule as problem:
            self._add_problem(path, str(problem))
            return None
        display_path, origin = self.root.show(path), f"imported by {self.root.show(importer)}"
        body = split_front_matter(text)[1] if _has_front_matter(path) else text
        note = "; ".join(notes)
        if not body.strip():
            return None
        return replace(
            rule, path=display_path, text=body.strip(), description="", note=note, owner=rule.path, about=origin
        )

    def _add_problem(self, path: str, reason: str) -> None:
        display_path = self.root.show(path)
        kind = _classify(path, {}, (), "")
        self.problems.append(
            LoadedRule(path=display_path, kind=kind, note=f"not loaded: {reason}", reason="it can't be read")
        )

    def load_notes(self, workspace: Path) -> None:
        """Load the accepted notes about a project."""
        try:
            self.rules += ProjectNotes(workspace).build_rules()
        except StateError as problem:
            note = f"not loaded: {problem.format_with_hint()}"
            self.problems.append(LoadedRule(path="memory", kind="memory", note=note, reason="it can't be read"))


def _has_front_matter(path: str) -> bool:
    if path.endswith((".mdc", COPILOT_SUFFIX)):
        return True
    return any(f"/{directory}/" in f"/{path}" for directory, _ in RULE_DIRECTORIES)


def _classify(path: str, front: FrontMatter, globs: tuple[str, ...], description: str) -> RuleKind:
    """Return the kind of a rule file; Claude's rules always apply unless they have patterns, and those of Copilot only
    if they say to which files."""
    name = path.rpartition("/")[2]
    if name.startswith("AGENTS."):
        return "agents_md"
    if name.startswith("CLAUDE."):
        return "claude_md"
    if name.endswith(COPILOT_SUFFIX):
        return _classify_copilot(front, globs, description)
    if globs and get_text(front, "alwaysApply").lower() != "true":
        return "globs"
    if not path.endswith(".mdc") or get_text(front, "alwaysApply").lower() == "true":
        return "always"
    return "described" if description else "manual"


def _classify_copilot(front: FrontMatter, globs: tuple[str, ...], description: str) -> RuleKind:
    if "coding-agent" in get_text(front, "excludeAgent"):
        return "manual"
    if set(globs) & EVERY_FILE:
        return "always"
    if globs:
        return "globs"
    return "described" if description else "manual"


class ImportReader:
    """A reader of the imports of one rule file, transitively, each file once and at most four hops away.

    `accept` returns the reason against using the bytes of a path, "" = they may be used. `problems` explain omissions.
    """

    def __init__(self, rule_root: RuleRoot, accept: Accept) -> None:
        self._root = rule_root
        self._accept = accept
        self._seen: set[str] = set()
        self.problems: list[str] = []

    def read(self, path: str, text: str, chain: tuple[str, ...] = ()) -> Iterator[tuple[str, bytes, str]]:
        """Iterate over `(path, bytes, importer)` in the order of imports."""
        chain = (*chain, path)
        self._seen.add(path)
        for reference in find_references(text):
            if (source := self._find(reference, path)) is None:
                continue
            target, data = source
            if target in chain:
                self.problems.append(f"@{reference} in {self._root.show(path)} imports itself in a circle")
            elif target in self._seen:
                continue
            elif refusal := self._refuse(target, data, len(chain)):
                self._seen.add(target)
                self.problems.append(f"@{reference} not read: {refusal}")
            else:
                self._seen.add(target)
                yield target, data, path
                if target.endswith(PROSE):
                    yield from self.read(target, data.decode("utf-8", "replace"), chain)

    def _refuse(self, target: str, data: bytes, hops: int) -> str:
        if hops > MAX_HOPS:
            return f"it is more than {MAX_HOPS} imports away"
        if len(self._seen) > MAX_IMPORTS:
            return f"there are more than {MAX_IMPORTS} imports"
        return self._accept(self._root.show(target), data)

    def _find(self, reference: str, importer: str) -> tuple[str, bytes] | None:
        """Return the target of a reference: relative to the importing file, else to the top. None: no file."""
        refusal = ""
        for base in dict.fromkeys((posixpath.dirname(importer), "")):
            try:
                target = self._root.resolve(posixpath.join(base, reference))
                return target, self._root.read(target)
            except PathRefused as refused:
                if refused.code == "path_escapes" and _is_plainly_a_file(reference):
                    refusal = "not allowed: it points outside the project"
                elif refused.code not in NO_FILE:
                    refusal = refusal or f"not read: {refused.message.rstrip('.')}"
        if refusal:
            self.problems.append(f"@{reference} {refusal}")
        elif reference.endswith(PROSE):
            self.problems.append(f"@{reference} does not exist")
        return None


def _is_plainly_a_file(reference: str) -> bool:
    """True if a reference can't be code; many projects write their own modules as `@/components`."""
    return reference.endswith(PROSE) or reference.startswith(("../", "~/")) or os.path.lexists(reference)


def find_references(text: str) -> Iterator[str]:
    """Iterate over the paths that a text imports, without duplicates; code spans and fences do not count."""
    seen_paths = set()
    for match in _REFERENCE.finditer(_CODE_SPAN.sub(" ", _blank_fences(text))):
        path = match[1].rstrip(".!?/")
        if path and path not in seen_paths and path not in {"~", "."}:
            seen_paths.add(path)
            yield path


def has_own_text(text: str) -> bool:
    """True if a text has content besides its imports."""
    lines = _REFERENCE.sub("", text).splitlines()
    return any(line.strip(" \t-*") and not line.startswith("#") for line in lines)


def _blank_fences(text: str) -> str:
    fence: Fence | None = None
    lines = []
    for line in text.split("\n"):
        was_open, fence = fence, track_fence(fence, line)
        lines.append("" if was_open is not None or fence is not None else line)
    return "\n".join(lines)


Accept = Callable[[str, bytes], str]
