/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second driver in the process.
 */
#pragma once

#include <stdbool.h>

/* A libcuda is in memory that the program's own namespace (dlmopen) does not have. */
bool nvs_driver_is_elsewhere(void);
