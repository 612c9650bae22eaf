"""Sessions on disk: the append-only log, its fold, and the directories that hold them."""
