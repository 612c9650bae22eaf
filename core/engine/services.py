"""Services that all sessions of an engine share: workspace, settings, models, box, trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from core.config.settings import Settings
from core.engine.models import ModelAccess
from core.engine.project_trust import ProjectTrust
from core.engine.shared_box import SharedBox
from core.sessions.store import SessionStore
from core.workspace import Workspace


class EngineServices(Struct, eq=False, kw_only=True):
    """Made when the first session of a workspace is opened. `settings` may be replaced between turns. `bounds`:
    settings of the project that can't be widened. `interactive`: a user can be asked. `notices` wait for the next
    session."""

    workspace: Workspace
    settings: Settings
    models: ModelAccess
    boxes: SharedBox
    store: SessionStore
    trust: ProjectTrust
    interactive: bool = True
    bounds: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
