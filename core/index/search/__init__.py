"""The search over an index: words, vectors, and the ranker that makes one list of them."""
