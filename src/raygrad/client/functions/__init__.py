"""User code in a session: Functions, hooks, their contexts and derivatives, and what runs showed of them.

Above recording: their nodes are records, too. They submit and wait through the `SessionExecution` of the session above.
"""
