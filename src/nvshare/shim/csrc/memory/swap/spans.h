/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of addresses, none over another, in their order. Pure; the owner's lock protects it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvs_span {
	uint64_t start;
	uint64_t bytes;
	void *of; /* the owner's */
};

/* All zero: none. */
struct nvs_spans {
	struct nvs_span *all;
	size_t count;
	size_t room;
};

/* The first one that ends behind the address; NULL: none. Valid until the next change. */
struct nvs_span *nvs_spans_from(const struct nvs_spans *spans, uint64_t address);
/* The one that the address lies in; NULL: none. */
struct nvs_span *nvs_spans_at(const struct nvs_spans *spans, uint64_t address);
/* Whether something lies in these addresses. */
bool nvs_spans_touch(const struct nvs_spans *spans, uint64_t start, uint64_t bytes);
/* Whether there is no gap in these addresses. */
bool nvs_spans_cover(const struct nvs_spans *spans, uint64_t start, uint64_t bytes);
/* Whether none reaches over either end of these addresses. */
bool nvs_spans_whole(const struct nvs_spans *spans, uint64_t start, uint64_t bytes);
/* Where nothing is. False: no host memory, nothing was changed. */
bool nvs_spans_add(struct nvs_spans *spans, uint64_t start, uint64_t bytes, void *of);
/* One that nvs_spans_from or nvs_spans_at gave. */
void nvs_spans_remove(struct nvs_spans *spans, struct nvs_span *span);
