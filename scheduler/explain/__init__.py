"""Facts about plans and runs as data: timetable, reasons, transfers, memory.

Computed from plans and records; the report room renders them.
"""
