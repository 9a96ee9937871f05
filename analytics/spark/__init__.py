"""What the Spark engine is made of: Java, session, staging folder, staged events, tasks."""
