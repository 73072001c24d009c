/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines on stderr. Each is one write(2) that begins with "nvshare: ". Any thread may call these;
 * errno is left alone.
 */
#pragma once

#include <stdbool.h>

/* What the user must know. */
void nvs_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether nvs_debug writes; before this is called it does not. */
void nvs_log_debug(bool wanted);
/* Changes of state, with NVSHARE_DEBUG=1. */
void nvs_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
