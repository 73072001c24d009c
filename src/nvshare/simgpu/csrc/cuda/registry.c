/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which handles are valid: a hash table from the address of an object to its type, open addressing
 * with tombstones. Protected by sim.lock.
 */
#include <stdlib.h>

#include "sim.h"

struct slot {
	const void *object; /* NULL: never used */
	int type;	    /* 0: a tombstone */
};

static struct slot *slots;
static size_t capacity; /* a power of two */
static size_t filled;	/* tombstones included */

static size_t place_of(const void *object)
{
	return (size_t)(((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ull >> 20);
}

static struct slot *look_up(const void *object)
{
	size_t i = place_of(object) & (capacity - 1);

	while (slots[i].object && slots[i].object != object)
		i = (i + 1) & (capacity - 1);
	return &slots[i];
}

static void grow(void)
{
	struct slot *old = slots;
	size_t old_capacity = capacity;

	capacity = capacity ? capacity * 2 : 256;
	slots = calloc(capacity, sizeof(*slots));
	filled = 0;
	for (size_t i = 0; i < old_capacity; i++) {
		if (old[i].type == 0)
			continue;
		*look_up(old[i].object) = old[i];
		filled++;
	}
	free(old);
}

void sim_register_locked(void *object, enum sim_type type)
{
	struct slot *slot;

	if (filled * 4 >= capacity * 3)
		grow();
	slot = look_up(object);
	if (!slot->object)
		filled++;
	slot->object = object;
	slot->type = (int)type;
}

void sim_forget_locked(void *object)
{
	struct slot *slot = look_up(object);

	slot->type = 0;
}

bool sim_is_locked(const void *object, enum sim_type type)
{
	return object && capacity > 0 && look_up(object)->type == (int)type;
}
