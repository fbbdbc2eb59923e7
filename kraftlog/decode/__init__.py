"""Record frames → typed columns: the interpreter defines what bytes mean, the columnar path does
the same, fast.
"""
