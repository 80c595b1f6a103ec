"""Stand-ins for the compiled modules of the Gaudi bridge, for `tests.devices.bridge_lab`.

They take the place of `habana_frameworks/torch/lib/*_pybind`, below the bridge's own
Python. Names and signatures are those of its `bindings.cpp` (1.19); tensors are those
of the CPU, and no figure says anything about a Gaudi.
"""
