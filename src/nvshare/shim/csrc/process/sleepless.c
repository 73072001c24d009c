/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the reason. No lock: the first one to come is it.
 */
#include "process/sleepless.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static _Atomic(const char *) reason;

void nvs_sleepless(const char *why)
{
	const char *before = NULL;

	atomic_compare_exchange_strong(&reason, &before, why);
}

void nvs_sleepless_unknown(const char *name)
{
	static char text[128];
	static _Atomic bool taken;

	if (atomic_exchange(&taken, true))
		return;
	snprintf(text, sizeof(text), "it uses %s, which this version does not know", name);
	nvs_sleepless(text);
}

const char *nvs_sleepless_why(void)
{
	return atomic_load(&reason);
}
