/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of chunks. No state of its own, no lock: the caller's protects everything.
 */
#include "memory/swap/places.h"

#include "gate/device.h"
#include "gate/marks.h"

static void push(struct nvs_chunk_list *list, struct nvs_chunk *chunk)
{
	chunk->before = NULL;
	chunk->after = list->first;
	if (chunk->after)
		chunk->after->before = chunk;
	else
		list->last = chunk;
	list->first = chunk;
}

static void append(struct nvs_chunk_list *list, struct nvs_chunk *chunk)
{
	chunk->after = NULL;
	chunk->before = list->last;
	if (chunk->before)
		chunk->before->after = chunk;
	else
		list->first = chunk;
	list->last = chunk;
}

static void take(struct nvs_chunk_list *list, struct nvs_chunk *chunk)
{
	if (chunk->before)
		chunk->before->after = chunk->after;
	else
		list->first = chunk->after;
	if (chunk->after)
		chunk->after->before = chunk->before;
	else
		list->last = chunk->before;
}

uint64_t nvs_chunks_submissions(void)
{
	uint64_t sum = 0;

	NVS_EACH_DEVICE(device, UINT64_MAX)
		sum += nvs_marks_submissions(device);
	return sum;
}

bool nvs_chunk_is_clean(const struct nvs_chunk *chunk)
{
	return chunk->clean_at == nvs_chunks_submissions() &&
	       (chunk->host_copy || !chunk->had_contents);
}

bool nvs_chunk_is_out(const struct nvs_chunk *chunk)
{
	return chunk->place == NVS_PLACE_NOWHERE || chunk->place == NVS_PLACE_HOST;
}

static void count_swapped(struct nvs_places *places, struct nvs_chunk *chunk, bool swapped)
{
	if (swapped && !chunk->swapped)
		places->swapped_bytes += chunk->bytes;
	else if (!swapped && chunk->swapped)
		places->swapped_bytes -= chunk->bytes;
	chunk->swapped = swapped;
}

void nvs_places_put(struct nvs_places *places, struct nvs_chunk *chunk, int place)
{
	chunk->place = place;
	count_swapped(places, chunk, place == NVS_PLACE_HOST);
	if (nvs_chunk_is_out(chunk)) {
		places->out_bytes += chunk->bytes;
		push(&places->out, chunk);
	} else {
		places->resident += chunk->bytes;
		if (chunk->pins)
			return;
		if (nvs_chunk_is_clean(chunk))
			push(&places->here, chunk);
		else
			append(&places->here, chunk);
	}
}

static void leave_place(struct nvs_places *places, struct nvs_chunk *chunk)
{
	if (nvs_chunk_is_out(chunk)) {
		places->out_bytes -= chunk->bytes;
		take(&places->out, chunk);
	} else {
		places->resident -= chunk->bytes;
		if (!chunk->pins)
			take(&places->here, chunk);
	}
}

void nvs_places_remove(struct nvs_places *places, struct nvs_chunk *chunk)
{
	leave_place(places, chunk);
	count_swapped(places, chunk, false);
}

void nvs_places_lift(struct nvs_places *places, struct nvs_chunk *chunk)
{
	leave_place(places, chunk);
	places->resident += chunk->bytes;
	chunk->place = NVS_PLACE_MOVING;
}

void nvs_places_set_down(struct nvs_places *places, struct nvs_chunk *chunk, int place)
{
	places->resident -= chunk->bytes;
	nvs_places_put(places, chunk, place);
}

void nvs_places_pin(struct nvs_places *places, struct nvs_chunk *chunk)
{
	take(&places->here, chunk);
}

/* The first clean one that nobody works on. */
static struct nvs_chunk *find_clean(const struct nvs_places *places, bool *entered)
{
	uint64_t submissions = nvs_chunks_submissions();
	struct nvs_chunk *chunk;

	for (chunk = places->here.first; chunk && chunk->clean_at == submissions;
	     chunk = chunk->after) {
		if (!chunk->host_copy && chunk->had_contents)
			continue;
		if (!chunk->entered)
			return chunk;
		*entered = true;
	}
	return NULL;
}

/* Of the others, the one that came first of those for which there is room. */
static struct nvs_chunk *find_written(const struct nvs_places *places, uint64_t host_bytes,
				      bool *entered)
{
	struct nvs_chunk *chunk;

	for (chunk = places->here.last; chunk; chunk = chunk->before) {
		if (!chunk->granules && chunk->bytes > host_bytes && !nvs_chunk_is_managed(chunk))
			continue;
		if (!chunk->entered)
			return chunk;
		*entered = true;
	}
	return NULL;
}

struct nvs_chunk *nvs_places_find_here(const struct nvs_places *places, uint64_t host_bytes,
				       bool *entered)
{
	struct nvs_chunk *chunk;

	*entered = false;
	chunk = find_clean(places, entered);
	return chunk ? chunk : find_written(places, host_bytes, entered);
}

struct nvs_chunk *nvs_places_find_out(const struct nvs_places *places, uint64_t most_bytes,
				      bool *entered)
{
	struct nvs_chunk *chunk;

	*entered = false;
	for (chunk = places->out.last; chunk; chunk = chunk->before) {
		if (chunk->bytes > most_bytes)
			continue;
		if (!chunk->entered)
			return chunk;
		*entered = true;
	}
	return NULL;
}

void nvs_places_quiet(struct nvs_places *places)
{
	places->quiet_at = nvs_chunks_submissions();
}

uint64_t nvs_places_fresh(const struct nvs_places *places)
{
	uint64_t submissions = nvs_chunks_submissions();

	return submissions == places->quiet_at ? submissions : UINT64_MAX;
}
