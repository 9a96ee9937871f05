"""Custody of mobile hosts: sessions, handoff, streams, spools (paper 000, extended)."""
