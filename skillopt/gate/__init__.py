"""Gate rules and the statistics behind a verdict. Pure."""
