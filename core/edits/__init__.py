"""The edit engine: text in, text out. Pure functions over one matching ladder; no file is opened here."""
