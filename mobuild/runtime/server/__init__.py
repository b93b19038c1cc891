"""An HTTP server around one engine: the Open Inference Protocol v2, from the standard library.

`http` speaks HTTP/1.1 with one client, `protocol` reads and writes inference, `sizes` judges shapes, `admission` lends
engines out, `routes` answers, `serving` listens and ends, `metrics` counts. Python's own `http.server` was tried: it
has no deadline for a whole request, and what it imports is a third of the time until the server is ready.
"""
