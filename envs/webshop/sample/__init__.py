"""The sample catalogue: invented products in the official format, so that everything runs offline."""
