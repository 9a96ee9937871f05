"""Live messages alone: stations of the delta-causal core, with clocks, links and restarts of their own."""
