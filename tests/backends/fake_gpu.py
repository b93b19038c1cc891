"""A CUDA driver of our own in the place of NVIDIA's: it answers for one card, whose memory is the machine's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# The numbers of the attributes are CUDA's: cuda.h, CUdevice_attribute.
_DRIVER = """
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) {
  *version = getenv("GPU_CUDA") ? atoi(getenv("GPU_CUDA")) : 13000;
  return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = 0; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, getenv("GPU_NAME"), size); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = (size_t)atoi(getenv("GPU_MIB")) << 20; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = 0; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? atoi(getenv("GPU_MAJOR")) : attribute == 76 ? atoi(getenv("GPU_MINOR"))
         : attribute == 16 ? atoi(getenv("GPU_SMS")) : 0;
  return 0;
}
"""
_MEMORY = """
int cuMemAlloc_v2(unsigned long long *address, size_t size) { *address = (unsigned long long)malloc(size); return 0; }
int cuMemFree_v2(unsigned long long address) { free((void *)address); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) { memcpy(to, (void *)from, size); return 0; }
int cuCtxSynchronize(void) { return 0; }
"""
L4 = {"GPU_NAME": "NVIDIA L4", "GPU_MAJOR": "8", "GPU_MINOR": "9", "GPU_SMS": "58", "GPU_MIB": "22500"}
L20 = {"GPU_NAME": "NVIDIA L20", "GPU_MAJOR": "8", "GPU_MINOR": "9", "GPU_SMS": "92", "GPU_MIB": "46000"}
T4 = {"GPU_NAME": "Tesla T4", "GPU_MAJOR": "7", "GPU_MINOR": "5", "GPU_SMS": "40", "GPU_MIB": "14900"}


def compiled(folder: Path) -> Path:
    """The folder of the library, for LD_LIBRARY_PATH."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (folder / "driver.c").write_text(_DRIVER + _MEMORY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "driver.c"], check=True)
    return folder
