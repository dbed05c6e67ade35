"""The run folder: journal, rendered files, events, budget."""
