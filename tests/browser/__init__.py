"""Tests that look at the page in a real browser."""
