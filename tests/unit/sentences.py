"""What every sentence for people must keep to, whoever put it together: mechanical rules, so that
they hold of the messages that nobody has read yet.
"""

import re

LONGEST_MESSAGE = 1000
"""Characters of a finding on a small quorum; more is a page, and not a message."""
LONGEST_SENTENCE = 240
"""Characters between two full stops, or semicolons of a list; names included."""
_COUNTED = (
    "batches brokers bytes changes configs controllers copies directories epochs fields files "
    "findings folders gaps headers leaders messages names nodes objects offsets partitions places "
    "ranges records replicas requests segments snapshots steps times topics users voters warnings"
)
_KIND = "(?:record |zero |damaged |critical |more )?"
_SLIPS = (
    (re.compile(r"None(?! of)|True|False|[{}<>]"), "shows the inside of the program"),
    (re.compile(r"  |^ | $|\( | \)|\(\)| [,;]| [.:](?!\w)|[,;:]{2}|\.\.(?!\.)"), "is put together"),
    (re.compile(rf"(?<![\w.,-])1 {_KIND}({'|'.join(_COUNTED.split())})\b"), "counts one as many"),
    (re.compile(r"\b0 more\b|\bup to 0\b|\(s\)"), "says what nobody would say"),
    (re.compile(r"\. [a-z]"), "begins a sentence with a small letter"),
)


def slips(text: str) -> list[str]:
    """What is wrong with a message, in words; nothing where it is one or more whole sentences."""
    found = [f"{why}: {slip.group()!r}" for rule, why in _SLIPS if (slip := rule.search(text))]
    if not text.endswith("."):
        found.append("does not end with a full stop")
    if not re.match("[A-Z0-9]", text):
        found.append("does not begin with a capital")
    if text.count("(") != text.count(")"):
        found.append("opens a bracket and does not close it")
    if len(text) > LONGEST_MESSAGE:
        found.append(f"has {len(text)} characters")
    longest = max(re.split(r"(?<=[.;]) ", text), key=len)
    if len(longest) > LONGEST_SENTENCE:
        found.append(f"has a sentence of {len(longest)} characters: {longest!r}")
    return found
