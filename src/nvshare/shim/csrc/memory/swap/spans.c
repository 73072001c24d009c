/* SPDX-License-Identifier: Apache-2.0 */
/* Spans in an array in the order of their starts, pure: see spans.h. */
#include "memory/swap/spans.h"

#include <stdlib.h>
#include <string.h>

struct nvs_span *nvs_spans_from(const struct nvs_spans *spans, uint64_t address)
{
	size_t low = 0, high = spans->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (spans->all[middle].start + spans->all[middle].bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < spans->count ? &spans->all[low] : NULL;
}

struct nvs_span *nvs_spans_at(const struct nvs_spans *spans, uint64_t address)
{
	struct nvs_span *span = nvs_spans_from(spans, address);

	return span && span->start <= address ? span : NULL;
}

bool nvs_spans_touch(const struct nvs_spans *spans, uint64_t start, uint64_t bytes)
{
	const struct nvs_span *span = nvs_spans_from(spans, start);

	return bytes && span && span->start < start + bytes;
}

bool nvs_spans_cover(const struct nvs_spans *spans, uint64_t start, uint64_t bytes)
{
	uint64_t at = start;

	while (at < start + bytes) {
		const struct nvs_span *span = nvs_spans_at(spans, at);

		if (!span)
			return false;
		at = span->start + span->bytes;
	}
	return true;
}

bool nvs_spans_whole(const struct nvs_spans *spans, uint64_t start, uint64_t bytes)
{
	const struct nvs_span *first = nvs_spans_at(spans, start);
	const struct nvs_span *last = nvs_spans_at(spans, start + bytes - 1);

	return (!first || first->start == start) &&
	       (!last || last->start + last->bytes == start + bytes);
}

bool nvs_spans_add(struct nvs_spans *spans, uint64_t start, uint64_t bytes, void *of)
{
	struct nvs_span *behind;
	size_t place;

	if (spans->count == spans->room) {
		size_t room = spans->room ? 2 * spans->room : 64;
		struct nvs_span *grown = realloc(spans->all, room * sizeof(*grown));

		if (!grown)
			return false;
		spans->all = grown;
		spans->room = room;
	}
	behind = nvs_spans_from(spans, start);
	place = behind ? (size_t)(behind - spans->all) : spans->count;
	memmove(spans->all + place + 1, spans->all + place,
		(spans->count++ - place) * sizeof(*spans->all));
	spans->all[place] = (struct nvs_span){ start, bytes, of };
	return true;
}

void nvs_spans_remove(struct nvs_spans *spans, struct nvs_span *span)
{
	size_t place = (size_t)(span - spans->all);

	memmove(span, span + 1, (--spans->count - place) * sizeof(*spans->all));
}
