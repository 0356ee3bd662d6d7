"""Samples of distributions that tensors give the parameters of: bernoulli, multinomial, normal.

They are made of ops and of the draws of `dispatch.random_numbers`, so that sessions, vmap and streams treat them alike.
"""
