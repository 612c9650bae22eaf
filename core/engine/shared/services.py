"""Services that all sessions of an engine share: workspace, settings, models, box, trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from core.config.settings import Settings
from core.engine.shared.background_link import BackgroundLink
from core.engine.shared.box import SharedBox
from core.engine.shared.models import ModelAccess
from core.engine.shared.project_files import FileList
from core.engine.shared.project_index import ProjectIndex
from core.engine.shared.project_trust import ProjectTrust
from core.permissions.foreign_rules import ForeignPermissions
from core.protocol.options import EngineOptions
from core.sessions.store import SessionStore
from core.workspace import Workspace
from core.workspace.added_directories import AddedDirectories

if TYPE_CHECKING:
    from core.engine.shared.project_search import ProjectSearch
    from core.protocol.events import IndexStatus
    from core.protocol.queries import SearchAnswer, SearchQuery
    from core.tools.base import Reader


class EngineServices(Struct, eq=False, kw_only=True):
    """The services of a workspace, created with its first session. `settings` may be replaced between turns.

    `foreign`: rules from other agents' files. `bounds`: settings of the project that can't be widened. `options`: those
    of the run. `notices` are shown by the next session. `has_finished_others`: sessions of killed programs were
    searched for unfinished work and repaired.
    """

    workspace: Workspace
    settings: Settings
    models: ModelAccess
    boxes: SharedBox
    store: SessionStore
    trust: ProjectTrust
    files: FileList
    index: ProjectIndex
    background: BackgroundLink
    foreign: ForeignPermissions
    options: EngineOptions = EngineOptions()
    bounds: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    has_finished_others: bool = False
    _search: ProjectSearch | None = None

    @property
    def added_directories(self) -> AddedDirectories | None:
        """The directories outside of the workspace that may be read."""
        return AddedDirectories(self.options.add_dirs) if self.options.add_dirs else None

    @property
    def accepts_at_once(self) -> bool:
        """True if edits are written to the project without a review."""
        return self.boxes.is_in_place or self.settings.edits.policy == "auto"

    async def search(self, query: SearchQuery, reader: Reader) -> SearchAnswer:
        """Return the positions that match a query best, in the files that `reader` may read."""
        if self._search is None:
            # imported with the first query
            from core.engine.shared.project_search import ProjectSearch
            from core.engine.shared.remote_embeddings import EmbedRoute

            route = EmbedRoute(self.index, self.workspace.root, self.index.directory, self.models)
            self._search = ProjectSearch(self.index, route)
        return await self._search.search(query, reader, self.settings)

    def describe_index(self) -> IndexStatus:
        """Return the progress of the index, and the state of the embedding model."""
        status = self.index.status()
        return status if self._search is None else self._search.describe(status)

    async def close(self) -> None:
        """Stop search, background agents' updates and index. Safe to call twice."""
        if self._search is not None:
            await self._search.close()
        await self.background.close()
        await self.index.close()
