"""Edits made from the commits of git repositories, each with the one file that it means: how many are right, how many
are refused, how many are wrong?"""
