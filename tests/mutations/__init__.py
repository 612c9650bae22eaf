"""Mutation run: fifty places broken one by one, and the tests that have to notice (docs/dev/testing.md)."""
