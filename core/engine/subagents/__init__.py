"""Subagents: sessions that work for another session on tasks, todos or candidates, and the merge of their changes."""
