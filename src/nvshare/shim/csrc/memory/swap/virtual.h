/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own virtual memory by address: what it has reserved, what it has mapped there, and
 * who may reach it. What the driver would refuse is refused here, since the driver can't say it of
 * what is out. Any thread may call; a call may wait while the mover has a chunk in its hands.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"

struct nvs_handle;

/* Whatever memory the process uses: reservations come before anybody knows what for. */
CUresult nvs_virtual_reserve(CUdeviceptr *start, size_t bytes, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags);
CUresult nvs_virtual_free(CUdeviceptr start, size_t bytes);

/* Maps a held handle, which the mapping then holds too. */
CUresult nvs_virtual_map(struct nvs_handle *handle, CUdeviceptr start, size_t bytes, size_t offset,
			 unsigned long long flags);
/* The driver has mapped a handle of its own there. */
void nvs_virtual_mapped(CUdeviceptr start, size_t bytes);

/* Whether a call for these addresses is to be answered here: something of ours lies there. */
bool nvs_virtual_ours(CUdeviceptr start, size_t bytes);
/*
 * The answers to cuMemUnmap, cuMemSetAccess and cuMemGetAccess for such addresses. `foreign`: does
 * the same for what the driver has mapped between ours.
 */
CUresult nvs_virtual_unmap(CUdeviceptr start, size_t bytes,
			   CUresult (*foreign)(CUdeviceptr start, size_t bytes));
/* The driver has unmapped all of what it had there. */
void nvs_virtual_unmapped(CUdeviceptr start, size_t bytes);
CUresult nvs_virtual_set_access(CUdeviceptr start, size_t bytes, const CUmemAccessDesc_v1 *desc,
				size_t count);
CUresult nvs_virtual_get_access(unsigned long long *flags, const CUmemLocation_v1 *location,
				CUdeviceptr address);
/* The program's reservation that the address lies in; nothing is written if there is none. */
void nvs_virtual_reservation(CUdeviceptr address, CUdeviceptr *start, uint64_t *bytes);
/* The handle that is mapped there, held; NULL: none of ours. */
struct nvs_handle *nvs_virtual_handle(CUdeviceptr address);
/*
 * The chunks that these addresses lie in can't move from now on; the caller has passed the gate of
 * the device. False: one is out.
 */
bool nvs_virtual_pin(CUdeviceptr start, uint64_t bytes);

/* In a forked child. */
void nvs_virtual_forked(void);
