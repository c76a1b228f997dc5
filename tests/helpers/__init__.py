"""What several test modules share and no axis describes; no test module imports another."""
