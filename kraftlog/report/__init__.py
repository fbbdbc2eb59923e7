"""What people read: rows on the terminal, the summary of a run, the page."""
