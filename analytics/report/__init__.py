"""The report of a night: numbers as JSON, a page for people, a few lines for a terminal, tables as Parquet."""
