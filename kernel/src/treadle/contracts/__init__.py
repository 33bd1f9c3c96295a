"""The contract: the types that plugins implement and use.

Plugin authors import these names from ``treadle`` itself. Each module holds one topic; none imports a
private part of the kernel except the field types (templates, expressions, paths, argument trees).
"""
