"""The notebook of examples/, run as a reader runs it."""
