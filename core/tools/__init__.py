"""Tools: one module each; a tool declares one Access and is handed only what that Access allows."""
