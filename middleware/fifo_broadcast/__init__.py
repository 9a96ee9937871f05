"""Reliable FIFO broadcast between stations (paper 001)."""
