"""What a rig draws, and what has to supply it."""
