"""Why a change that lives is no other program: nothing but declarations."""

EQUAL: dict[str, str] = {}
"""The reason, by a piece of the change's key."""


def reason(key: str) -> str:
    """The reason of a change, or nothing."""
    return next((f"equal: {why}" for piece, why in EQUAL.items() if piece in key), "")
