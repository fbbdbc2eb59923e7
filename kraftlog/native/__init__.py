"""The compiled part: loops over the bytes of many records, and how they are built and loaded."""
