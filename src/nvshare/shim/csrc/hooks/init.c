/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit: a driver that can be checkpointed starts a thread in it, and from then on the kernel lets
 * some calls wait until every processor has passed through it. Those that the first device needs
 * are made before, while a program may still have one thread. They start nothing and open nothing;
 * a program that comes to its first device without them makes them there. No state.
 */
#include "driver/driver.h"
#include "gate/marks.h"
#include "process/files.h"

NVS_HOOK(cuInit, unsigned int Flags)
{
	nvs_marks_register();
	nvs_files_make_room();
	return NVS_CALL(cuInit, Flags);
}
