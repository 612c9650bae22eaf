"""Permissions of a session: the rules that hold, its network grants, and the audit log of their use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from core.config.settings import Settings
from core.engine.services import EngineServices
from core.errors import AgentTuiError, StateError
from core.git.command_view import RepositoryView, find_repository_view
from core.git.layout import find_repository
from core.permissions.audit import AuditLog
from core.permissions.rules import PermissionRule, find_strictest, select_rules
from core.permissions.saved_rules import SavedRules
from core.sandbox.box import BoxService, Tier
from core.sessions.private_directory import find_private_directory
from core.shadow.shadow import Shadow
from core.shell.network_grants import NetworkGrants, build_service, explain_unreachable
from core.workspace import IgnoreRules, Workspace
from core.workspace.withheld_paths import WithheldFinder, WithheldPaths


class SessionPermissions:
    """The permissions of one open session, whose own directory is `directory`."""

    def __init__(
        self,
        directory: Path,
        services: EngineServices,
        shadow: Shadow,
        *,
        audit: AuditLog,
        settings: Callable[[], Settings],
        report_error: Callable[[AgentTuiError], None],
    ) -> None:
        self._settings = settings
        self._report_error = report_error
        self._audit = audit
        self.saved_rules = SavedRules(services.workspace.root, is_persistent=find_private_directory(directory) is None)
        self.network_grants = NetworkGrants(directory / "network", self.load_rules, self.record_network_use)
        self._root = services.workspace.root
        self._above: WithheldFinder | None = None
        self._withheld = WithheldFinder(services.workspace, shadow.ignore, self._may_read)
        self._reading: tuple[PermissionRule, ...] = ()

    def load_rules(self) -> tuple[PermissionRule, ...]:
        """Return the configured rules and the patterns that the user saved. Raises `StateError`."""
        return (*self._settings().permissions.parse_rules(), *self.saved_rules.parse_rules())

    def find_withheld(self) -> WithheldPaths:
        """Return what a command that starts now must not read. Slow the first time: call it in a thread."""
        reading = tuple(select_rules(self.load_rules(), "Read"))
        if reading != self._reading:
            self._reading = reading
            self._withheld.clear()
        withheld_paths = self._withheld.find_paths()
        return self._add_withheld_above(withheld_paths)

    def find_repository(self) -> RepositoryView:
        """Return what a command that starts now sees of the repository outside of the workspace. Starts git."""
        return find_repository_view(self._root)

    def _add_withheld_above(self, withheld_paths: WithheldPaths) -> WithheldPaths:
        """Add what is withheld of the tree that the workspace is part of, which commands see as well."""
        places = find_repository(self._root)
        if places is None or places.root == self._root:
            return withheld_paths
        if self._above is None:
            tree = Workspace(places.root)
            self._above = WithheldFinder(tree, IgnoreRules(tree), left_out=f"{self._root.relative_to(places.root)}/")
        above = self._above.find_paths()
        outside = [*above.outside, *(places.root / path for path in (*above.covered, *above.masked))]
        outer_paths = (path for path in outside if not path.is_relative_to(self._root))
        sibling_paths = [path for path in outer_paths if not self._root.is_relative_to(path)]
        return replace(
            withheld_paths,
            outside=(*withheld_paths.outside, *sibling_paths),
            notes=(*withheld_paths.notes, *above.notes),
        )

    def _may_read(self, path: str) -> bool | None:
        rule = find_strictest(rule for rule in self._reading if rule.matches(path))
        return None if rule is None else rule.choice == "allow"

    async def open_proxy(self) -> Path | None:
        """Return the socket of the network proxy; None = it can't be started, and there is no network. It is there also
        where nobody can be asked: what it refuses is told."""
        return await self.network_grants.open_proxy()

    def list_services(self) -> tuple[BoxService, ...]:
        """Return the granted services of the machine that a command which starts now can reach."""
        services = self.network_grants.list_services()
        reachable_services = (
            service for service in services if not explain_unreachable(service, Tier.NAMESPACES, os.environ)
        )
        return tuple(map(build_service, reachable_services))

    def record_network_use(self, kind: str, data: dict[str, object]) -> None:
        try:
            self._audit.record(kind, data)
        except StateError as problem:
            self._report_error(problem)

    async def close(self) -> None:
        await self.network_grants.close()
        self._audit.close()
