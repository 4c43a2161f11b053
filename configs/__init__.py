"""Presets: one YAML file for each named agent."""
