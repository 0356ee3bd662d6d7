"""Values between processes and on disk: contexts as plain data, packed values, spill files, calls and records as bytes.

Stands above code and below whoever runs steps.
"""
