"""What lies on disk: file names, folders, record batches, codecs, record frames. No meaning is
given to any value.
"""
