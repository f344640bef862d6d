"""The audit: the equations of promise I14, offsets, fates, promotions and copies, over the evidence of one look."""
