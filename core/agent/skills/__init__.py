"""Skills as a model meets them: told by name, opened when one fits, kept through a compaction."""
