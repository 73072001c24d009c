/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena of a device in a file that the scheduler opened and gave. Each granule has a checksum,
 * made before it is written and looked at when it is read.
 */
#pragma once

#include <stdbool.h>

struct nvs_device;
struct nvs_file;

/*
 * Takes the file and begins to write; the end is NVS_STORE_GONE or NVS_STORE_KEPT. False: it is no
 * empty file. `why` it does not begin, and memory has all as before; NULL: it does.
 */
bool nvs_store_file(struct nvs_device *device, struct nvs_file *file, const char **why);
