"""The review: proposals, risks, renames, verdicts on hunks, edits of hunks, and conflicts."""
