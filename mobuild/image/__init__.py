"""OCI images without a daemon: trees of files, layers, packages of Debian and of Python, and the image itself.

The standard library alone (`zstandard` where layers are to be zstd). Equal content gives equal bytes: entries
sorted, owners and times fixed, JSON canonical. `nodes.image` makes each layer a node of the graph.
"""
