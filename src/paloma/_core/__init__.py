"""The theory: a learner as a choice on each axis, the stream it learns, the loop, the contract of a space."""
