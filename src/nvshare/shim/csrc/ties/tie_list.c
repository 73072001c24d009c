/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a device's ties, pure: see tie_list.h. Owns nothing.
 */
#include "ties/tie_list.h"

#include <stddef.h>
#include <string.h>

static struct nvs_tie *entry_of(struct nvs_tie_list *list, const uint8_t *key, uint32_t tie)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->ties[i].tie == tie && !memcmp(list->ties[i].key, key, NVS_WIRE_KEY_BYTES))
			return &list->ties[i];
	return NULL;
}

/* The order of the others stays: who came first is told first. */
static void take_out(struct nvs_tie_list *list, struct nvs_tie *entry)
{
	struct nvs_tie *end = list->ties + --list->count;

	memmove(entry, entry + 1, (size_t)(end - entry) * sizeof(*entry));
}

bool nvs_tie_list_add(struct nvs_tie_list *list, const uint8_t *key, uint32_t tie, uint32_t size)
{
	struct nvs_tie *entry = entry_of(list, key, tie);

	if (!entry) {
		if (list->count == NVS_TIES_MOST)
			return false;
		entry = &list->ties[list->count++];
		*entry = (struct nvs_tie){ .tie = tie, .size = size };
		memcpy(entry->key, key, NVS_WIRE_KEY_BYTES);
	}
	/* If it had ended, the scheduler was not told yet, and never will be. */
	entry->holds++;
	return true;
}

bool nvs_tie_list_drop(struct nvs_tie_list *list, const uint8_t *key, uint32_t tie)
{
	struct nvs_tie *entry = entry_of(list, key, tie);

	if (!entry || !entry->holds)
		return false;
	entry->holds--;
	if (!entry->holds && entry->state == NVS_TIE_NEW)
		take_out(list, entry);
	return true;
}

bool nvs_tie_list_say(struct nvs_tie_list *list, struct nvs_frame *frame)
{
	struct nvs_tie *entry = list->ties, *end = list->ties + list->count;

	while (entry < end && entry->holds && entry->state != NVS_TIE_NEW)
		entry++;
	if (entry == end)
		return false;
	memcpy(frame->gang.key, entry->key, NVS_WIRE_KEY_BYTES);
	frame->gang.tie = entry->tie;
	if (!entry->holds) {
		frame->type = NVS_LEAVE;
		take_out(list, entry);
		return true;
	}
	entry->state = NVS_TIE_TOLD;
	entry->request = ++list->requests;
	frame->type = NVS_JOIN;
	frame->request = entry->request;
	frame->gang.size = entry->size;
	frame->gang.was_complete = entry->tie == NVS_TIE_NAME && entry->size && entry->was_complete;
	return true;
}

bool nvs_tie_list_heard(struct nvs_tie_list *list, uint32_t request)
{
	if (!request || request > list->requests)
		return false;
	/* It may have ended since, or been told again. */
	for (uint32_t i = 0; i < list->count; i++)
		if (list->ties[i].state == NVS_TIE_TOLD && list->ties[i].request == request) {
			list->ties[i].state = NVS_TIE_JOINED;
			list->ties[i].was_complete = true;
		}
	return true;
}

void nvs_tie_list_forget(struct nvs_tie_list *list)
{
	for (uint32_t i = list->count; i-- > 0;) {
		list->ties[i].state = NVS_TIE_NEW;
		if (!list->ties[i].holds)
			take_out(list, &list->ties[i]);
	}
}

const struct nvs_tie *nvs_tie_list_find(const struct nvs_tie_list *list, const uint8_t *key,
					uint32_t tie)
{
	const struct nvs_tie *entry = entry_of((struct nvs_tie_list *)list, key, tie);

	return entry && entry->holds ? entry : NULL;
}

bool nvs_tie_list_holds(const struct nvs_tie_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->ties[i].holds)
			return true;
	return false;
}
