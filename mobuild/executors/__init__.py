"""Where nodes run: each executor takes a `Job` and gives back an `Outcome`."""
