"""The review: verdicts on hunks, conflicts, competing versions, edits of hunks."""
