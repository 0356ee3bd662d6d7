"""What a plan predicts and what its run showed: timetable, reasons, transfers, memory.

Reads plans and records; the report room renders what it returns.
"""
