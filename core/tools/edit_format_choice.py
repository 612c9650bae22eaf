"""The edit format that a model is offered: the one that models of its name are best at, or the one that was configured.

The other formats are understood all the same, under whatever name a model calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.config.settings import Settings
from core.edit_formats import EDIT_TOOLS, EditFormat
from core.providers.catalog.capabilities import find_canonical_name

OTHERS: Final[EditFormat] = "search_replace"
# The name under which a format's tool is offered, and that tool.
OFFERED: Final[Mapping[EditFormat, tuple[str, str]]] = {
    format_: (name, tool.name) for tool in EDIT_TOOLS for format_, name in tool.offers.items()
}


def choose_edit_format(model: str, settings: Settings) -> EditFormat:
    """The format for a model, by its id `provider/name`."""
    edit_format = settings.models[model].edits if model in settings.models else ""
    return edit_format or guess_edit_format(model)


def guess_edit_format(model: str) -> EditFormat:
    """The format that models of this name are best at."""
    return find_canonical_name(model).edits or OTHERS
