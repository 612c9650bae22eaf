"""Encodings of texts that are no UTF-8, and the letters by which they are told."""
