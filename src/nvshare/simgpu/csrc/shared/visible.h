/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices a process sees: what a container runtime makes of NVIDIA_VISIBLE_DEVICES by leaving
 * out the others' device files. Pure: no state, no I/O.
 */
#pragma once

#include "state.h"

/*
 * Writes the places of the visible devices, in their order, and returns how many there are. `list`
 * has UUIDs and indices, separated by commas; a name that is no device's adds none. NULL, an empty
 * one, "all" and a path (there the devices are listed by mounts) mean every device.
 */
unsigned int sim_visible(const struct sim_shared *shared, const char *list,
			 unsigned int place[SIM_MAX_DEVICES]);
