"""Directories of background agents on this machine, and the selection of their store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.errors import ConfigError, StateError
from core.filesystem.private_files import make_private_directory
from core.patterns import compile_lazily
from core.user_dirs import get_state_dir

if TYPE_CHECKING:
    from core.background.store import AgentStore
    from core.config.settings import BackgroundSettings

DATABASE_VARIABLE: Final = "AGENT_TUI_DATABASE"
BLOBS_VARIABLE: Final = "AGENT_TUI_BLOBS"
_AGENT_ID: Final = compile_lazily(r"bga_[0-9a-z]{16}")


def get_agents_dir() -> Path:
    """Return the directory of background agents; it need not exist."""
    return get_state_dir() / "agents"


def make_agents_dir() -> Path:
    """Create that directory, for the user alone. Raises `StateError`."""
    agents_dir = get_agents_dir()
    try:
        make_private_directory(agents_dir)
    except OSError as problem:
        raise StateError(f"the directory {agents_dir} can't be created: {problem.strerror}.") from problem
    return agents_dir


def get_agent_dir(name: str) -> Path:
    """Return the directory of one agent: its clone (`project`) and its sessions (`sessions`)."""
    if not _AGENT_ID.fullmatch(name):
        raise StateError(f"{name!r} is not the id of a background agent.")
    return get_agents_dir() / name


def resolve_database(requested_address: str = "", configured_address: str = "") -> str:
    """Return the address of the team's database: requested, from the environment, or configured; "" = this machine.
    Raises `ConfigError`."""
    address = requested_address or os.environ.get(DATABASE_VARIABLE, "").strip() or configured_address
    if address and not address.startswith(("postgresql://", "postgres://")):
        hint = "It looks like postgresql://user@host/database."
        raise ConfigError(f"{address.partition('://')[0]!r} is not a PostgreSQL address.", hint=hint)
    return address


def resolve_blobs(configured_address: str = "") -> str:
    """Return the address of the team's object store from the environment or the configuration; "" = the database."""
    return os.environ.get(BLOBS_VARIABLE, "").strip() or configured_address


def open_store(database: str = "", *, blobs: str = "", lease: float = 30.0) -> AgentStore:
    """Return the store of this machine, or of a team's database (`resolve_database`) with an optional object store
    (`resolve_blobs`). `lease`: as in `PostgresStore`. Raises `ConfigError`."""
    if not database:
        from core.background.sqlite_store import SqliteStore

        return SqliteStore(make_agents_dir())
    from core.background.object_store import ObjectStore, parse_address
    from core.background.postgres_store import PostgresStore

    return PostgresStore(database, lease=lease, objects=ObjectStore(parse_address(blobs)) if blobs else None)


def open_configured_store(settings: BackgroundSettings, *, database: str = "", lease: float = 30.0) -> AgentStore:
    """Return the store of the settings and the environment. `database`: an address that overrides both; `lease`: as in
    `PostgresStore`. Raises `ConfigError`."""
    address = resolve_database(database, settings.database)
    return open_store(address, blobs=resolve_blobs(settings.blobs), lease=lease)
