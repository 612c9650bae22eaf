"""The index of a project: chunks of its files, their words and vectors, and the search over them."""
