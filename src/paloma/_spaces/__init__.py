"""One folder per representation: its state, how it takes a block, its read-out, its mixing."""
