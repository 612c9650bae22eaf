"""What a user has configured."""

from __future__ import annotations

from core.user_dirs import get_config_dir

ASKS = '[commands]\npolicy = "confirm"\n'


def configured(text: str) -> None:
    """The user's config.toml from now on."""
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(text)
