"""Placement: from a saved device, mesh or sharding to the one that it becomes here.

``names`` is the grammar of device names, ``saved`` describes live objects as plain data,
``here`` is what this process has, ``rules`` are the forms of ``devices=``, ``settings`` and
``session`` say which of them are in force, and ``resolver`` applies them, by way of ``meshes``,
``memories`` and ``specs``.
"""
