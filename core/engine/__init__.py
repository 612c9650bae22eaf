"""The engine: three verbs (`submit`, `events`, `query`) over the sessions of one workspace.

Reading order: `engine` routes, `effects` says what a command does, `answers` what a question finds, `runtime` is a
session that is open, `live` keeps its commands in order, `turns` runs one, `recovery` mends what a crash left.
"""

from __future__ import annotations

from core.engine.engine import Engine, EngineOptions

__all__ = ["Engine", "EngineOptions"]
