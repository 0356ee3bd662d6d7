"""The value store of a worker: where each of its values is, what moves it, and how memory limits are kept.

`WorkerHost` and the steps that it runs ask `store.ValueStore`, and move no values of their own.
"""
