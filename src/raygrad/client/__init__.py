"""The client: turns ordinary autograd code into submissions, and results back into values.

- *Session*: one program's connection to an executor; while it is ambient, operations are recorded.
- *Record*: one recorded node; its outputs are `Pending` values, counted by their holders.
- *Submission*: the records that are needed, as one graph with the values that outlive it.
- *Observed signature*: what the first run of a user Function showed; later calls with an equal key do not wait (H3).
- *Variable*: whatever a program rebinds (`.grad`, parameters, optimiser state); versioned, rolled back on failure (H8).
"""
