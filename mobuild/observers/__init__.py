"""See what a node really read: files, modules, environment variables.

What the static closure missed becomes a condition of the node's record. One file per observer.
"""
