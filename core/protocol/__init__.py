"""The wire: frozen plain data that survives JSON, and no behaviour."""
