"""The composition of the cores that one station runs."""
