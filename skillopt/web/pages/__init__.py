"""The pages, one module each: from a request to an answer."""
