"""What happened to one object, as a timeline: files or rows of a lake → moments → sentences."""
