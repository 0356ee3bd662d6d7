"""The codec: the classes of `raygrad.proto.ir` as tuples of plain data, and back.

The one place that knows the order of fields on the wire. What came over a wire is checked here, field by field.
"""
