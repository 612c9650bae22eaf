"""Jupyter notebooks (nbformat 4) as text: parsing with positions, rendering, and edits that preserve every other
byte."""
