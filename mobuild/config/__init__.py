"""From a command line's overrides to frozen jobs. Hydra and OmegaConf stay in here, in `cli` and in `launcher`."""
