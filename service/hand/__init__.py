"""What turns the wheel: the hand, its loader, promotion, and the sweeps."""
