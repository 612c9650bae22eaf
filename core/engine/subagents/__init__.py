"""Subagents: sessions that work on todos of a plan, and the merge of what they leave."""
