"""Transports: bytes on one side, submit / events / query on the other."""
