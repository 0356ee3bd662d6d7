"""raygrad.optim"""
