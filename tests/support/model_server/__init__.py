"""A model server's answers on three wires, and the rules that the real services enforce."""
