"""A state as the captures hold it: the lines that Kafka's own image was written as."""

from kraftlog.state.state import State
from kraftlog.state.write import canonical_line, image_records


def canonical_lines(state: State) -> list[str]:
    """The lines of a state's records, sorted by their bytes."""
    lines = (canonical_line(one) for one in image_records(state))
    return sorted(lines, key=lambda line: (line + "\n").encode())
