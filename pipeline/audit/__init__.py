"""The audit: the equations of promise I14, offsets, fates, promotions and copies, over one sight of the tables."""
