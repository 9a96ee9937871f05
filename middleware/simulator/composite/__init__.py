"""Stations in clusters with gateways: what is drawn, what goes wrong there, and what must hold."""
