/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the memory behind the handles of the VMM calls. Protected by sim.lock. */
#include <stdlib.h>
#include <unistd.h>

#include "memory/range.h"

static uint64_t on_host; /* of them: in memory of the host */

bool sim_physical_has_host_locked(void)
{
	return on_host > 0;
}

struct sim_physical *sim_physical_add_locked(const CUmemAllocationProp_v1 *properties, int device,
					     uint64_t bytes)
{
	struct sim_physical *physical = calloc(1, sizeof(*physical));

	physical->references = 1;
	physical->handles = 1;
	physical->device = device;
	physical->file = -1;
	physical->bytes = bytes;
	physical->properties = *properties;
	on_host += device < 0;
	sim_register_locked(physical, SIM_PHYSICAL);
	return physical;
}

uint64_t sim_physical_unref_locked(struct sim_physical *physical)
{
	uint64_t bytes = physical->bytes;

	if (--physical->references > 0)
		return 0;
	sim_forget_locked(physical);
	if (physical->file >= 0)
		close(physical->file);
	else if (physical->offset != 0)
		sim_file_give_locked(physical->offset, physical->bytes);
	on_host -= physical->device < 0;
	if (physical->charged)
		sim_state_uncharge(&sim.state, physical->device, physical->bytes);
	free(physical);
	return bytes;
}
