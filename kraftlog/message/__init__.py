"""What a message looks like: its fields, version by version, read from `schemas/`. No bytes are
touched here.
"""
