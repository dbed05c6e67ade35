"""Model calls: one request type, one reply type, typed errors."""
