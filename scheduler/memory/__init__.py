"""Memory of workers in a plan: live bytes for a node order, and orders, spills and rematerialisation under a limit.

After placement, `execution_order` orders the nodes of each worker; it asks `spill_limits` where no order fits.
"""
