"""Keys and visibility: which widget may take a key, and the meaning of letters."""
