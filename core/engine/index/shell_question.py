"""A question from the shell: compared by the model of the `embed` route where sessions have fetched its vectors."""

from __future__ import annotations

from pathlib import Path

from core.config.settings import Settings
from core.engine.index.project_index import ProjectIndex
from core.engine.index.remote_meaning import EmbedRoute
from core.engine.models import ModelAccess
from core.index.reader import IndexReader
from core.index.search.question import read_question


async def embed_from_shell(
    root: Path, store: Path, settings: Settings, text: str
) -> tuple[str, tuple[bytes, bytes] | None, str]:
    """Return what `EmbedRoute.embed_question` does, and why the model of the route is not asked ("" = it is). It asks
    for no vectors of the project, which may take long. Raises `IndexFailed`."""
    index = ProjectIndex(root, store, lambda status: None, enabled=True)
    route = EmbedRoute(index, root, store, ModelAccess())
    route.fills = False
    try:
        model, vectors = await route.embed_question(settings, read_question(text))
        told = route.add_to(await index.read(IndexReader.read_status))
        known = f"{told.model} knows {told.known_to_model:,} pieces of the project. " if told.model else ""
        return model, vectors, f"{known}{route.problem}" if route.problem else ""
    finally:
        await route.close()
        await index.close()
