"""Permissions of a session: the rules that hold, its network grants, and the audit log of their use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.config.settings import Settings
from core.engine.services import EngineServices
from core.errors import AgentTuiError, StateError
from core.permissions.audit import AuditLog
from core.permissions.rules import PermissionRule, find_strictest, select_rules
from core.permissions.saved_rules import SavedRules
from core.sessions.private_directory import find_private_directory
from core.shadow.shadow import Shadow
from core.shell.network_grants import NetworkGrants
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
        self._interactive = services.interactive
        self._settings = settings
        self._report_error = report_error
        self._audit = audit
        self.saved_rules = SavedRules(services.workspace.root, keeps=find_private_directory(directory) is None)
        self.network_grants = NetworkGrants(directory / "network", self.load_rules, self._record_network_use)
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
        return self._withheld.find_paths()

    def _may_read(self, path: str) -> bool | None:
        rule = find_strictest(rule for rule in self._reading if rule.matches(path))
        return None if rule is None else rule.choice == "allow"

    async def open_proxy(self) -> Path | None:
        """Return the socket of the network proxy; None = no host can be granted and no probe sends its log."""
        if not (self._interactive or self.network_grants.list_hosts() or self.network_grants.collector):
            return None
        return await self.network_grants.open_proxy()

    def _record_network_use(self, kind: str, data: dict[str, object]) -> None:
        try:
            self._audit.record(kind, data)
        except StateError as problem:
            self._report_error(problem)

    async def close(self) -> None:
        await self.network_grants.close()
        self._audit.close()
