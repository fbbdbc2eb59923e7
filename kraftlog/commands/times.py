"""Times on the command line."""

from datetime import UTC, datetime

from kraftlog.errors import UsageError


def time_ms(text: str | None) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time (UTC where it names no zone) or of a plain
    number.
    """
    if text is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time: write 2026-11-21T12:03:00Z, or ms") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
