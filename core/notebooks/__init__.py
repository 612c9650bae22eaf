"""Jupyter notebooks (nbformat 4) as text with places: what a file holds, and edits that keep every other byte."""
