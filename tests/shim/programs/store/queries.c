/* SPDX-License-Identifier: Apache-2.0 */
/* What is told about memory. */
#include <string.h>

#include "store.h"

/* All that can be asked, as one text. */
static void ask(CUdeviceptr pointer, char *text)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;
	CUresult result;

	for (int attribute = 1; attribute <= 22; attribute++) {
		unsigned char one[24], many[24];
		CUpointer_attribute name = (CUpointer_attribute)attribute;
		void *place = many;

		memset(one, 0x55, sizeof(one));
		memset(many, 0x55, sizeof(many));
		text += sprintf(text, "%d:%d", attribute,
				cuPointerGetAttribute(one, name, pointer));
		text += sprintf(text, "/%d ", cuPointerGetAttributes(1, &name, &place, pointer));
		for (int i = 0; i < 16; i++)
			text += sprintf(text, "%02x", one[i]);
		text += sprintf(text, " ");
		for (int i = 0; i < 16; i++)
			text += sprintf(text, "%02x", many[i]);
		text += sprintf(text, "\n");
	}
	result = cuMemGetAddressRange_v2(&base, &bytes, pointer);
	sprintf(text, "range:%d %llx %zu\n", result, base, bytes);
}

static void expect_same(const CUdeviceptr *pointers, char (*texts)[8192], const char *state)
{
	char now[8192];

	for (int i = 0; i < 3; i++) {
		ask(pointers[i], now);
		if (strcmp(now, texts[i])) {
			printf("%s %d:\n%snot\n%s", state, i, now, texts[i]);
			_exit(1);
		}
	}
}

/* Where another device is current, which can't reach it; the flags are as if it could (an H200). */
static void ask_from_another(CUdeviceptr pointer)
{
	CUdeviceptr start;
	CUcontext other;
	size_t bytes;
	int flags = 0;

	OK(cuCtxCreate_v2(&other, 0, 1));
	OK(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, pointer));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetAddressRange_v2(&start, &bytes, pointer) == CUDA_ERROR_NOT_FOUND);
	OK(cuCtxDestroy_v2(other));
}

/* Every question, in every state, has the same answer. */
void queries(void)
{
	static char texts[3][8192];
	CUdeviceptr pointers[3], start, size;
	struct nvs_chunk *chunk;
	CUresult result;
	int zero = 0, one = 1, value = 0;

	begin();
	OK(cuMemAlloc_v2(&pointers[0], 1000));
	OK(cuMemAlloc_v2(&pointers[1], 3 * MIB));
	OK(cuMemAlloc_v2(&pointers[2], 200 * MIB));
	for (int i = 0; i < 3; i++)
		OK(cuMemsetD8_v2(pointers[i], 7, 1000));
	OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointers[0] + 7));
	OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointers[0] + 7));
	CHECK(start == pointers[0] && size == 1000);
	pointers[0] += 7, pointers[1] += 2 * MIB, pointers[2] += 130 * MIB;
	for (int i = 0; i < 3; i++)
		ask(pointers[i], texts[i]);
	close_gate();
	expect_same(pointers, texts, "closed");
	while ((chunk = nvs_chunk_begin_out(device, UINT64_MAX))) {
		expect_same(pointers, texts, "moving");
		chunk->granules = calloc(1, chunk->bytes);
		chunk->host_copy = true;
		nvs_chunk_out(chunk);
		count(-(int64_t)chunk->bytes);
		expect_same(pointers, texts, "some out");
	}
	CHECK(nvs_chunks_resident(device) == 0 && nvs_chunks_out_bytes(device) == 206 * MIB);
	expect_same(pointers, texts, "out");
	OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointers[1]));
	OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointers[1]));
	CHECK(value == 1);
	OK(cuPointerSetAttribute(&zero, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointers[1]));
	chunk = nvs_chunk_begin_in(device, UINT64_MAX, &result);
	expect_same(pointers, texts, "moving in");
	nvs_chunk_back(chunk);
	expect_same(pointers, texts, "back");
	open_gate();
	ask_from_another(pointers[1]);
	expect_same(pointers, texts, "in");
	printf("%s", texts[0]);
}
