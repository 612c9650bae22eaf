"""The shadow: pending changes over the workspace, their hunks, verdicts on them, and promotion to the user's files."""

from __future__ import annotations

from core.shadow.content.blob_store import BlobStore
from core.shadow.layers.layer_store import MIN_FREE_BYTES, CommandLayer, get_free_bytes, measure_tree
from core.shadow.promotion.promotion import PromotionFailed
from core.shadow.review.proposals import ShadowEdit
from core.shadow.shadow import Shadow
from core.shadow.tool_view import ShadowView
from core.state.review import ReviewState

__all__ = [
    "MIN_FREE_BYTES",
    "BlobStore",
    "CommandLayer",
    "PromotionFailed",
    "ReviewState",
    "Shadow",
    "ShadowEdit",
    "ShadowView",
    "get_free_bytes",
    "measure_tree",
]
