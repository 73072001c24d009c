/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which record of ours an address belongs to: a table of all granules of 2 MiB that a device's
 * address space may have, in two steps. It knows nothing of CUDA and takes no lock: its caller's
 * protects it. A look-up takes the same short time however many ranges there are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* cdef begin */
/*
 * The range, of whole granules and not empty, is `owner`'s from now on, who is not NULL. False: no
 * host memory, or it lies where no device has memory; nothing was changed.
 */
bool nvs_addresses_set(uint64_t start, uint64_t bytes, void *owner);
/* It is nobody's any more. */
void nvs_addresses_clear(uint64_t start, uint64_t bytes);
/* NULL: nobody's. */
void *nvs_addresses_find(uint64_t address);
/* Forgets everything. */
void nvs_addresses_forget(void);
/* cdef end */
