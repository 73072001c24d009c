/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit: a driver that can be checkpointed starts a thread in it, and from then on the kernel lets
 * some calls wait until every processor has passed through it. Those that the first device needs
 * are made before, if the program has one thread yet. They start nothing and open nothing; a
 * program that comes to its first device without them makes them there. No state.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "driver/driver.h"
#include "driver/uses.h"
#include "gate/marks.h"
#include "process/ends.h"
#include "process/files.h"

/* The kernel counts the folders of the threads, one each, beside two links to theirs. */
static bool is_alone(void)
{
	struct stat threads;
	NVS_KEEP_ERRNO;

	return !stat("/proc/self/task", &threads) && threads.st_nlink == 3;
}

NVS_HOOK(cuInit, unsigned int Flags)
{
	if (is_alone()) {
		nvs_marks_register();
		nvs_files_make_room();
	}
	nvs_uses_linked();
	return NVS_CALL(cuInit, Flags);
}
