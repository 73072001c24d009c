/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the notices that were said. No lock: a bit is set once.
 */
#include "process/notices.h"

#include <stdatomic.h>

#include "process/log.h"
#include "process/report.h"

static const char *const texts[] = {
	[NVS_NOTICE_SECOND_DRIVER] =
		"a second libcuda was loaded by dlmopen; what uses it runs without turns",
	[NVS_NOTICE_NOT_REDIRECTED] =
		"what is opened with RTLD_DEEPBIND may run without turns here",
	[NVS_NOTICE_PEER_ACCESS] =
		"peer access is on: kernels of one GPU may use another GPU without its lock",
	[NVS_NOTICE_NO_IPC] = ("other processes can't open memory that swaps (CUDA IPC); "
			       "NVSHARE_MEMORY=native allows it"),
	[NVS_NOTICE_IPC] = ("memory given to other processes (CUDA IPC) stays on the GPU; "
			    "only nvshare's can open it"),
	[NVS_NOTICE_UNMAPPED] = ("memory can't leave the GPU until more host memory can be mapped "
				 "(ulimit -v, vm.max_map_count)"),
};

static _Atomic uint32_t said;
static void (*_Atomic listener)(void);

void nvs_notice(enum nvs_notice notice)
{
	uint32_t bit = 1U << notice;
	struct nvs_report *report;
	void (*tell)(void);

	if (atomic_load_explicit(&said, memory_order_relaxed) & bit ||
	    atomic_fetch_or(&said, bit) & bit)
		return;
	nvs_log("%s", texts[notice]);
	report = nvs_report();
	if (report)
		__atomic_fetch_or(&report->notices, bit, __ATOMIC_RELAXED);
	tell = atomic_load(&listener);
	if (tell)
		tell();
}

const char *nvs_notice_text(enum nvs_notice notice)
{
	return texts[notice];
}

uint32_t nvs_notices_said(void)
{
	return atomic_load(&said);
}

void nvs_notices_listen(void (*tell)(void))
{
	atomic_store(&listener, tell);
}

void nvs_notices_forked(void)
{
	atomic_store(&said, 0);
}
