"""Composite clusters with gateways: the FIFO broadcast among many stations (paper 001, LOP)."""
