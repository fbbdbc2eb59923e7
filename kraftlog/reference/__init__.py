"""The reference pages below `kraftlog/docs`, generated from what the code declares, so that they
cannot drift.
"""
