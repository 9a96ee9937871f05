"""Delta-causal delivery of live messages with bounded tags (paper 003): a protocol core without input or output."""
