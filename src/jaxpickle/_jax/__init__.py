"""Everything private to JAX that jaxpickle touches, one small file a topic.

Nothing outside this package names ``jax._src`` or ``jaxlib``; what differs between versions
of JAX is decided here.
"""
