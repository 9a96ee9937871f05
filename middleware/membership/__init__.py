"""Who belongs to the group of stations: one added, one retired, one lost (composition.md sections 6 and 7)."""
