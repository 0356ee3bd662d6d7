"""Recording of nodes: the record log, what records read, where the user wrote them, and variables that are rebound.

The lowest sub-room of the client: functions and submissions are made of records.
"""
