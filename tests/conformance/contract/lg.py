"""LG: once_differentiable, InplaceFunction, NestedIOFunction, old names: programs that show each id."""
