"""The engine of agent-tui, without a screen: it decides, performs and records everything that a front end shows."""

from __future__ import annotations

__version__ = "0.1.0"
