/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that goes back because the program has freed what it was for. For the mover, with a
 * context of the device current.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_device;

/*
 * Gives back one segment of at most so many bytes that no chunk needs; a chunk that is on the
 * device loses its host copy for it. False: there is none, the driver does not let it go, or
 * something may run.
 */
bool nvs_surplus_give_back(struct nvs_device *device, uint64_t most);
