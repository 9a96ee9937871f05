"""Audits of delivery logs: what was lost, doubled or out of order, from the logs alone."""
