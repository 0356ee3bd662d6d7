"""Special functions: Bessel, incomplete gamma, zeta, normal distribution, orthogonal polynomials.

`raygrad.special` offers them with the gamma and error functions of `elementwise`. What SciPy computes needs the extra
`raygrad[special]`.
"""
