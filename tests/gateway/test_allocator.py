"""Large buffers are taken again instead of being mapped anew. In a process of its own: its heap is fresh."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

BUFFER_BYTES = 1 << 20
TIMES = 200
PROGRAM = f"""
import resource, sys
sys.path[:] = {sys.path!r}
from barbicel.gateway.allocator import keep_large_buffers
keep_large_buffers()
bytearray({BUFFER_BYTES})
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TIMES}):
    bytearray(b"x") * {BUFFER_BYTES}
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are left as they are")
def test_a_buffer_that_is_taken_again_costs_no_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    pages_of_all = TIMES * BUFFER_BYTES // 4096
    assert int(done.stdout) < pages_of_all / 10
