"""MD: gradient modes, inference mode, anomaly detection: programs that show each id."""
