"""raygrad.client"""
