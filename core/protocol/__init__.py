"""The wire format: frozen plain data that survives JSON, without behaviour."""
