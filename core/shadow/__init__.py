"""The shadow: pending changes over the workspace, their hunks, verdicts on them, and promotion to the user's files."""

from __future__ import annotations

from core.shadow.blobs import BlobStore
from core.shadow.editing import Edited
from core.shadow.layers import FLOOR, LayerDirs, bytes_below, free_bytes
from core.shadow.promote import PromotionFailed
from core.shadow.review import ReviewState
from core.shadow.tool_view import ShadowView
from core.shadow.view import Shadow

__all__ = [
    "FLOOR",
    "BlobStore",
    "Edited",
    "LayerDirs",
    "PromotionFailed",
    "ReviewState",
    "Shadow",
    "ShadowView",
    "bytes_below",
    "free_bytes",
]
