/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why this process can never leave its devices to the driver's checkpoint: it has something that
 * a checkpoint or a restore fails for, or functions of the driver that we don't know. Once said it
 * stays so.
 */
#pragma once

/* Of several reasons the first is kept. `why` is never freed. */
void nvs_sleepless(const char *why);
/* The program found a function of the driver by a name that is not in entrypoints.tsv. */
void nvs_sleepless_unknown(const char *name);
/* NULL: it can. */
const char *nvs_sleepless_why(void);
