"""Checks of a repository for what git would run because of it."""
