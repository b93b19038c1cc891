"""Opening and running engines; goes into images as `mobuild_runtime`.

What is validated and timed is what ships, so backends run engines through here and nowhere else. The
package therefore stands alone: relative imports only, the standard library at import, its own error, and
Python 3.8 syntax.
"""
