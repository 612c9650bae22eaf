"""Checks that the program runs again itself: alone, in a clean layer, over the very text that is judged by them."""
