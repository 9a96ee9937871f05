"""The sans-IO core of the agent on a mobile host (overview section 7)."""
