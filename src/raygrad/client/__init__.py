"""The client: what turns ordinary autograd code into submissions, and back into values.

- *Session*: one program's connection to an executor; while it is ambient, operations record.
- *Record*: one recorded node; its outputs are `Pending` values, counted by their holders.
- *Submission*: the recorded and needed nodes, as one graph with the values that outlive it.
- *Learned*: what the first run of a user Function showed; later applies with an equal key do not wait (H3).
- *Cell*: whatever a program rebinds (`.grad`, parameters, optimiser state); versioned, rolled back on failure (H8).
"""
