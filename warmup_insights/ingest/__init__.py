"""From logs to the store: one transaction per file, nothing twice, nothing lost.

A process that only reads logs imports `worker`, which does without the database.
"""
