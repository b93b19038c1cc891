"""From a line that an engineer types today to a recipe: `line` → one tool's reading of it (`wishes`) → `recipe`.

Nothing here writes a file or plans a build. What a tool's options mean stands in one module for each tool, what
versions have which of them in `facts`.
"""
