"""The engine: three verbs (`submit`, `events`, `query`) over the sessions of one workspace.

Reading order: `engine` routes; `commands` maps a command to its check and effect, `queries` a query to its answer;
`session/session` is an open session; `turns` runs its turns; `shared` holds what all sessions of an engine use.
"""

from __future__ import annotations

from core.engine.engine import Engine as Engine
from core.protocol.options import EngineOptions as EngineOptions
