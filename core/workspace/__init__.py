"""The user's project on disk: its names, its borders, its readable files, and the replacement of files.

Every open is relative to the workspace's directory descriptor and passes no symbolic link, so nothing that happens to
the tree meanwhile can lead a read or a write out of it.
"""

from __future__ import annotations

from core.workspace.ignore_rules import IgnoreRules
from core.workspace.path_status import ABSENT, MAX_EDITED_BYTES, DirectoryEntry, PathStat
from core.workspace.tree import Workspace

__all__ = ["ABSENT", "MAX_EDITED_BYTES", "DirectoryEntry", "IgnoreRules", "PathStat", "Workspace"]
