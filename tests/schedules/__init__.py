"""What is written for other programs, by those programs: see `__main__`."""
