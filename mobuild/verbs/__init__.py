"""The verbs: jobs in, exit status out. No Hydra in here; printing is `report`'s."""
