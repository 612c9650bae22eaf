"""Trust in a project: the decision, the question about it, and the settings that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from core.config.loading import PROJECT_FILE, load_with_notices, read_settings_bytes
from core.config.rules.loading import load_rule_files
from core.config.rules.roots import ProjectRoot, is_rule_path, iterate_rule_paths
from core.config.settings import LoadedSettings
from core.errors import AgentTuiError, CommandRejected, StateError
from core.extensions.agents import load_agents
from core.extensions.commands import load_commands, load_snippets
from core.extensions.extension_files import is_extension_path
from core.extensions.plugins import find_extension_folders
from core.extensions.skills import load_skills
from core.git.executed_programs import list_programs
from core.hooks.hook_files import (
    describe_changed_hooks,
    describe_hooks,
    is_hook_path,
    iterate_project_files,
    render_for_trust,
)
from core.hooks.parsing import HookFile
from core.mcp.config_files import PROJECT_FILES as SERVER_FILES
from core.mcp.config_files import check_project_files
from core.permissions.trust import TrustStore, find_instructions, is_empty_directory
from core.permissions.trusted_files import TrustCheck, TrustedFiles, hash_content
from core.protocol.events import FileWritten, Notice, TrustStated
from core.text.display_names import to_one_line
from core.workspace import Workspace

TRUST_HINT = "Answer yes when agent-tui asks in this directory, or add --trust for one run."
UNTRUSTED = "this project is not trusted, and this would run its hooks and the programs in its git configuration."
_MAY_RUN = "this project is not trusted, and a commit may run programs of its repository: {}."
_MAX_NAMED = 3
CONFIGURATION_PATH = PROJECT_FILE.as_posix()


def explain_programs(programs: Sequence[str]) -> str:
    """Return why a commit needs trust in the project, for what `list_programs` found."""
    remainder = [f"{len(programs) - _MAX_NAMED} more"] if len(programs) > _MAX_NAMED else []
    return _MAY_RUN.format(", ".join([*map(to_one_line, programs[:_MAX_NAMED]), *remainder]))


class ProjectTrust:
    """Trust in one project. `for_now`: the command line trusts it, for this run only."""

    def __init__(self, workspace: Workspace, *, for_now: bool) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._trust = TrustStore(self._root)
        self._problem = ""
        self._callback: Callable[[], object] | None = None
        self.trusted = for_now or self._load_decision()
        self.trusted_files = TrustedFiles(None, lambda _: None) if for_now else self._load_trusted_files()
        if self.trusted:
            self.check_all()

    def _load_decision(self) -> bool:
        try:
            return self._trust.has_trust()
        except (StateError, OSError) as problem:
            self._problem = problem.format_with_hint() if isinstance(problem, StateError) else str(problem)
            return False

    def check(self) -> None:
        """Check that the user's git may run the hooks and programs that the repository names outside of the box. Raises
        `CommandRejected` if the project is not trusted."""
        if not self.trusted:
            raise CommandRejected(UNTRUSTED, hint=TRUST_HINT, code="project_untrusted")

    def check_commit(self) -> None:
        """Check the same for a commit, which needs trust only if the repository names programs that it would run.
        Starts git. Raises `CommandRejected`."""
        if not self.trusted and (programs := list_programs(self._root)):
            raise CommandRejected(explain_programs(programs), hint=TRUST_HINT, code="project_untrusted")

    def _load_trusted_files(self) -> TrustedFiles:
        return self._trust.load_files() if self.trusted else TrustedFiles({}, lambda _: None)

    def is_readable(self, path: str, data: bytes) -> bool:
        """True if these bytes of a file of the project may be interpreted."""
        return self.trusted and self.trusted_files.is_trusted(path, data)

    def set_callback(self, callback: Callable[[], object]) -> None:
        """Have `callback` called, in any thread, when an untrusted file appears."""
        self._callback = self.trusted_files.on_untrusted = callback

    def load_settings(self) -> LoadedSettings:
        """Return the effective settings; those of the project are read only if it is trusted. Raises `ConfigError`."""
        return load_with_notices(self._root if self.trusted else None, self.trusted_files.is_trusted)

    def check_all(self) -> None:
        """Compare the project's configuration, its rules that apply from the start, and its extensions with the trusted
        versions."""
        self.check_paths([CONFIGURATION_PATH, *(file.hooks[0].source for file in self._list_hooks())])
        if self.trusted:
            load_rule_files(self._workspace, self.trusted_files.is_trusted)
            read_project_extensions(self._workspace, self.trusted_files.is_trusted)
            check_project_files(self._workspace, self.trusted_files.is_trusted)

    def check_paths(self, paths: Iterable[str]) -> None:
        """Compare files that need trust, among these paths, with the trusted versions."""
        for path in paths:
            if self.trusted and self._needs_trust(path) and (data := self._read_file(path)) is not None:
                self.trusted_files.is_trusted(path, data)

    def _needs_trust(self, path: str) -> bool:
        """True if a file needs trust: configuration, a rule or an import of one, hooks, or a file of an extension."""
        is_own = (
            path == CONFIGURATION_PATH
            or path in SERVER_FILES
            or is_rule_path(path)
            or is_extension_path(path)
            or is_hook_path(path, self._workspace)
        )
        return is_own or self.trusted_files.is_known(path)

    def decide(self, is_trusted: bool) -> LoadedSettings:
        """Apply the user's answer (a yes is saved) and return the settings that then apply. Raises `ConfigError` or
        `StateError`, and then changes nothing."""
        if self.trusted and self.trusted_files.untrusted:
            return self._decide_on_changes(is_trusted)
        loaded_settings = load_with_notices(self._root if is_trusted else None)
        if is_trusted:
            files = {path: hash_content(data) for path, data in self._iter_trusted_files()}
            self._trust.grant(files, self._describe_hooks())
        else:
            self._trust.revoke()
        self.trusted = is_trusted
        self.trusted_files = self._load_trusted_files()
        self.trusted_files.on_untrusted = self._callback or self.trusted_files.on_untrusted
        return loaded_settings

    def _decide_on_changes(self, is_trusted: bool) -> LoadedSettings:
        """Decide on changed files; after a no the project stays trusted, and the files stay unread."""
        digests = dict(self.trusted_files.untrusted)
        if not is_trusted:
            self.trusted_files.defer()
            return self.load_settings()
        loaded_settings = load_with_notices(
            self._root,
            lambda path, data: hash_content(data) == digests.get(path) or self.trusted_files.is_trusted(path, data),
        )
        lines = self._describe_hooks(*digests)
        self.trusted_files.trust(digests)
        if lines and self._trust.has_trust():
            self._trust.grant({}, lines)
        return loaded_settings

    def observe(self, event: FileWritten) -> None:
        """Trust a file that the user accepted in the review, since it is no change from outside. Files with hooks still
        need an answer, as the review does not show that they will run."""
        if self.trusted and self._needs_trust(event.path) and not is_hook_path(event.path, self._workspace):
            before, data = event.before, self._read_file(event.path)
            if data is not None and hash_content(data) == event.state.blob:
                with suppress(StateError):  # then the user is asked
                    self.trusted_files.accept_change(event.path, before.blob if before else "", event.state.blob)

    def _iter_trusted_files(self) -> Iterator[tuple[str, bytes]]:
        if (data := self._read_file(CONFIGURATION_PATH)) is not None:
            yield CONFIGURATION_PATH, data
        for file in self._list_hooks():
            yield file.hooks[0].source, render_for_trust(file, self._workspace)
        contents: dict[str, bytes] = {}

        def record(path: str, data: bytes) -> bool:
            contents[path] = data
            return True

        load_rule_files(self._workspace, record, nearby_paths=iterate_rule_paths(self._workspace))
        read_project_extensions(self._workspace, record)
        check_project_files(self._workspace, record)
        yield from contents.items()

    def _read_file(self, path: str) -> bytes | None:
        """Read the content of a file that needs trust, None = there is none. For hooks it is what they run."""
        if is_hook_path(path, self._workspace):
            return next((render_for_trust(file, self._workspace) for file in self._list_hooks(path)), None)
        try:
            if path == CONFIGURATION_PATH:
                return read_settings_bytes(self._root / PROJECT_FILE)
            return ProjectRoot(self._workspace).read_shown(path)
        except AgentTuiError:
            return None

    def _list_hooks(self, *paths: str) -> list[HookFile]:
        """Return the files with hooks among these paths, as they are on the disk; without paths, all of them."""
        files = iterate_project_files(self._workspace)
        return [file for path, file in files if file.hooks and (not paths or path in paths)]

    def _describe_hooks(self, *paths: str) -> dict[str, tuple[str, ...]]:
        """Return a line per hook of these files, by file; without paths, of all files."""
        return {file.hooks[0].source: describe_hooks([file]) for file in self._list_hooks(*paths)}

    def _list_untrusted_names(self) -> tuple[str, ...]:
        with_hooks = (file.hooks[0].source for file in self._list_hooks())
        return (*find_instructions(self._root), *with_hooks)

    def build_question(self) -> TrustStated | None:
        """Return the question to the user; None = the project is trusted or has nothing to trust."""
        directory = str(self._root)
        if self.trusted and self.trusted_files.untrusted:
            changed_paths = tuple(sorted(self.trusted_files.untrusted))
            hooks = describe_changed_hooks(self._trust.load_hooks(), self._describe_hooks(*changed_paths))
            return TrustStated(state="asked", directory=directory, changed=changed_paths, hooks=hooks)
        if self.trusted or is_empty_directory(self._root):
            return None
        hooks = describe_hooks(self._list_hooks())
        return TrustStated(state="asked", directory=directory, holds=self._list_untrusted_names(), hooks=hooks)

    def build_answer(self) -> TrustStated:
        if self.trusted:
            return TrustStated(state="trusted", directory=str(self._root))
        return TrustStated(state="restricted", directory=str(self._root), holds=self._list_untrusted_names())

    def warn_about_rules(self, rules: Sequence[str]) -> Notice | None:
        """Return the warning about allowing rules of the command line that do nothing in an untrusted project."""
        unused_rules = [rule for rule in rules if rule.startswith("Machine(")]
        if self.trusted or not unused_rules:
            return None
        message = f"This project is not trusted, so --allow has no effect: {', '.join(unused_rules)}."
        return Notice(level="warning", message=message, hint=TRUST_HINT)

    def build_notice(self) -> Notice | None:
        """Return the notice for a run in which nobody can be asked."""
        if self._problem:
            return Notice(level="warning", message=self._problem)
        if self.trusted and self.trusted_files.untrusted:
            names = ", ".join(sorted(self.trusted_files.untrusted))
            message = f"Changed since you trusted this project, so not loaded: {names}."
            return Notice(level="warning", message=message, hint=TRUST_HINT)
        unread_names = self._list_untrusted_names()
        if self.trusted or set(unread_names) <= {".git"}:  # every repository has one, and little of it is missed
            return None
        message = f"This project is not trusted, so not loaded: {', '.join(unread_names)}."
        return Notice(level="warning", message=message, hint=TRUST_HINT)


def read_project_extensions(workspace: Workspace, is_trusted: TrustCheck) -> None:
    """Pass every file of the project's extensions to `is_trusted`, by loading them."""
    places = find_extension_folders(workspace, is_trusted)
    folders = [folder for folder in places.folders if folder.scope == "project"]
    load_agents(folders)
    load_skills(folders)
    load_commands(folders)
    load_snippets(folders)
