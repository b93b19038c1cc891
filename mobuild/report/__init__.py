"""What people and scripts see of a run: lines, tables, sidecars, run.json."""
