"""Layers around providers: a rate limiter and a circuit breaker."""
