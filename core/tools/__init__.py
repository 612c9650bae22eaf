"""Tools. Every tool declares one Access and gets only the capability of that Access."""
