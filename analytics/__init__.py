"""For audits of delivery logs; empty in this version."""
