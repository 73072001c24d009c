/* SPDX-License-Identifier: Apache-2.0 */
/* Making handles. No state, no lock. */
#define _GNU_SOURCE
#include "memory/swap/shared.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

void nvs_shared_write(const uint8_t key[NVS_WIRE_KEY_BYTES],
		      const uint8_t device_uuid[NVS_WIRE_UUID_BYTES], uint64_t bytes,
		      CUipcMemHandle_v1 *to)
{
	struct nvs_shared_handle handle = { .bytes = bytes };

	memcpy(handle.magic, NVS_SHARED_MAGIC, sizeof(handle.magic));
	memcpy(handle.key, key, sizeof(handle.key));
	memcpy(handle.device_uuid, device_uuid, sizeof(handle.device_uuid));
	memcpy(to, &handle, sizeof(*to));
}

/* The C library that we are compiled for has no getrandom. */
bool nvs_shared_draw(uint8_t key[NVS_WIRE_KEY_BYTES])
{
	int saved = errno;
	bool drawn = syscall(SYS_getrandom, key, NVS_WIRE_KEY_BYTES, 0) == NVS_WIRE_KEY_BYTES;

	errno = saved;
	return drawn;
}
