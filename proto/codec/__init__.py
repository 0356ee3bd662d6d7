"""The codec: the classes of `raygrad.proto.ir` as tuples of plain data, and back.

The one place that knows the order of fields on the wire. Decoders check every field.
"""
