"""Agents that play the tasks of any world: live runs, budget sweeps, experience, states."""
