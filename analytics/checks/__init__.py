"""The checks of the audit: each is a pure function from columns to findings; none reads a file or knows an engine."""
