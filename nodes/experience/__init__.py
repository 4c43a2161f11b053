"""What the experience nodes share: episodes as trajectories, their states as text, their worth."""
