"""Names in a lake beside those of its tables. Imports nothing: who only keeps away from lakes asks
for no Delta.
"""

REGISTER = "_lake"
PAGE = "report.html"
KEY_FILE = "_redaction.key"
"""The key of a lake's masks and names, which nothing rebuilds."""
