"""A new quorum from what remains of an old one: copies → the newest image → files and a plan."""
