"""The commands of `kraftlog`, one file per family: each adds its parsers and runs one
library call.
"""
