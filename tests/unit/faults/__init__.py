"""Damages to a healthy quorum, each with the finding that it must give."""
