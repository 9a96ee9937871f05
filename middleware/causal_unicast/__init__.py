"""Causally ordered unicast between stations with s-records (paper 002): a protocol core without input or output."""
