"""Composite clusters alone: stations and gateways of the cluster cores, and what the paper says of them."""
