"""Keys and visibility: which widget may take a key, and what letters mean."""
