"""The engine of agent-tui, without a screen: whatever a front end shows is decided, done and recorded here."""

from __future__ import annotations

__version__ = "0.1.0"
