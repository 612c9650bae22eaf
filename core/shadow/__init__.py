"""The shadow: pending changes over the workspace, their hunks, verdicts on them, and promotion to the user's files."""
