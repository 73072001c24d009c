/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the book of allocations: a hash table in shards. Each shard's lock protects its chains and
 * is held for a look-up only; malloc and free are called outside of it.
 */
#include "memory/account.h"

#include <stdlib.h>

#include "process/mutex.h"

#define SHARDS 16
#define CHAINS 512

struct node {
	struct nvs_entry entry;
	struct node *next;
};

struct shard {
	struct nvs_mutex lock;
	struct node *chains[CHAINS];
} __attribute__((aligned(64)));

static struct shard shards[SHARDS] = { [0 ... SHARDS -
					1] = { .lock = NVS_MUTEX(NVS_ORDER_ACCOUNT) } };

static uint32_t hash(int kind, uint64_t key)
{
	return (uint32_t)((((key >> 4) ^ key << 60) + (uint64_t)kind) * 0x9e3779b97f4a7c15ULL >>
			  32);
}

static struct shard *shard_of(int kind, uint64_t key)
{
	return &shards[hash(kind, key) % SHARDS];
}

/* The link that leads to the entry, or the end of its chain. */
static struct node **find(struct shard *shard, int kind, uint64_t key)
{
	struct node **link = &shard->chains[hash(kind, key) / SHARDS % CHAINS];

	while (*link && ((*link)->entry.key != key || (*link)->entry.kind != kind))
		link = &(*link)->next;
	return link;
}

static struct node *unlink_node(struct node **link)
{
	struct node *node = *link;

	if (node)
		*link = node->next;
	return node;
}

/* Hands the entry of an unlinked node out. */
static bool hand_out(struct node *node, struct nvs_entry *entry)
{
	if (!node)
		return false;
	*entry = node->entry;
	free(node);
	return true;
}

bool nvs_account_add(const struct nvs_entry *entry)
{
	struct shard *shard = shard_of(entry->kind, entry->key);
	struct node *node = malloc(sizeof(*node)), *old, **link;

	if (!node)
		return false;
	node->entry = *entry;
	nvs_mutex_lock(&shard->lock);
	link = find(shard, entry->kind, entry->key);
	old = unlink_node(link);
	node->next = *link;
	*link = node;
	nvs_mutex_unlock(&shard->lock);
	free(old);
	return true;
}

bool nvs_account_take(int kind, uint64_t key, struct nvs_entry *taken)
{
	struct shard *shard = shard_of(kind, key);
	struct node *node;

	nvs_mutex_lock(&shard->lock);
	node = unlink_node(find(shard, kind, key));
	nvs_mutex_unlock(&shard->lock);
	return hand_out(node, taken);
}

bool nvs_account_find(int kind, uint64_t key, struct nvs_entry *found)
{
	struct shard *shard = shard_of(kind, key);
	const struct node *node;

	NVS_HOLD(&shard->lock);
	node = *find(shard, kind, key);
	if (node)
		*found = node->entry;
	return node != NULL;
}

bool nvs_account_hold(int kind, uint64_t key, int change, struct nvs_entry *changed)
{
	struct shard *shard = shard_of(kind, key);
	struct node **link, *node, *gone = NULL;
	bool possible;

	nvs_mutex_lock(&shard->lock);
	link = find(shard, kind, key);
	node = *link;
	possible = node && (int64_t)node->entry.holds + change >= 0;
	if (possible) {
		node->entry.holds = (uint32_t)((int64_t)node->entry.holds + change);
		*changed = node->entry;
		if (node->entry.holds == 0)
			gone = unlink_node(link);
	}
	nvs_mutex_unlock(&shard->lock);
	free(gone);
	return possible;
}

/* Unlinks the entries of the context in one shard and chains them. */
static struct node *unlink_of_context(struct shard *shard, const void *context)
{
	struct node *all = NULL;

	for (int i = 0; i < CHAINS; i++) {
		struct node **link = &shard->chains[i];

		while (*link) {
			struct node *node;

			if ((*link)->entry.context != context) {
				link = &(*link)->next;
				continue;
			}
			node = unlink_node(link);
			node->next = all;
			all = node;
		}
	}
	return all;
}

void nvs_account_sweep(const void *context, void (*gone)(const struct nvs_entry *entry))
{
	for (struct shard *shard = shards; shard < shards + SHARDS; shard++) {
		struct node *all;

		nvs_mutex_lock(&shard->lock);
		all = unlink_of_context(shard, context);
		nvs_mutex_unlock(&shard->lock);
		while (all) {
			struct node *node = unlink_node(&all);

			gone(&node->entry);
			free(node);
		}
	}
}

void nvs_account_forget(void)
{
	for (struct shard *shard = shards; shard < shards + SHARDS; shard++) {
		nvs_mutex_forked(&shard->lock);
		for (int i = 0; i < CHAINS; i++)
			while (shard->chains[i])
				free(unlink_node(&shard->chains[i]));
	}
}
