"""The causal unicast in the simulator: runs under faults, the RST matrix beside it, and the study of s-records."""
