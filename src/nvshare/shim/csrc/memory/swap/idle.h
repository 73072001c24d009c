/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuMemAlloc and cuMemFree do besides: a free waits for all work of the memory's context, and
 * neither may be called beside a capture of a CUDA graph whose mode forbids it, which it ends.
 */
#pragma once

#include "cuda/abi.h"

/*
 * Before an allocation in the current context: what the driver would answer because of it, or of
 * captures.
 */
CUresult nvs_idle_check(CUcontext context);
/* Before memory of the context is taken away. */
CUresult nvs_idle_wait(CUcontext context);
