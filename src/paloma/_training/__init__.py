"""From rows to streams: input, mining, memory, regions, rows without labels, the trainer."""
