"""Builders of engines, one file each; recipes reach them by `_target_`, and nothing else imports them."""
