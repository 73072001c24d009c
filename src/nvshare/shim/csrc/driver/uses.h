/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the driver's functions the program found, and by which route, for the report
 * (process/report.h), where somebody asked for one; what only passes the door counts as the
 * driver's own there. A function of the driver that we don't know
 * passes no door: a process that found one never sleeps (process/sleepless.h).
 */
#pragma once

#include <stdbool.h>

#include "cuda/abi.h"
#include "protocol/report.h"

struct nvs_hook;

/* dlsym was asked for a name of the form that the driver's have, and gave `answer`. */
void nvs_uses_named(const struct nvs_hook *hook, const void *answer);
/* The same of a name without a hook; what the real dlsym gives is not known yet. */
void nvs_uses_unhooked(const char *name);
/*
 * cuGetProcAddress gives `answer` for a name: a hook in place of the driver's function, or what the
 * driver answered.
 */
void nvs_uses_asked(const char *name, const void *answer, bool replaced);
/* Functions that we don't know and objects are linked with that are there by now. */
void nvs_uses_linked(void);
/* A table was given to code at `caller`. */
void nvs_uses_table(const CUuuid *id, const void *caller);
/* What objects that were loaded since the last look are linked with. */
void nvs_uses_look(void);
