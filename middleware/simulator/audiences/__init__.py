"""Topics in the simulated world: who may, who is subscribed, and what that means for the judge."""
