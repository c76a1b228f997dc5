"""The paper's experiments, and the demonstration of the command line."""
