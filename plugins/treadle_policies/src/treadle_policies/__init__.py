"""Budgets of runs, steps and agents; limits of providers: a rate limiter and a circuit breaker."""
