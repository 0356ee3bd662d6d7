"""The session: its public class, and the parts that submit, fetch, explain and account for one program.

The top of the client: a session makes the collaborators of all sub-rooms below, and connects them.
"""
