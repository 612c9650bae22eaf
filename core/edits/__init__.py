"""The edit engine: text in, text out. Pure functions over one matching ladder; no module here opens a file."""
