"""The body of the review: changed files as rows, one below the other."""
