/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Python program's signal handlers want of a thread that waits.
 */
#pragma once

#include <stdbool.h>

/*
 * A signal has interrupted the calling thread, which holds nothing of ours. Lets Python run its
 * handlers, if this is a thread of Python's; true: one raised an exception, which Python will raise
 * again as soon as it has the thread back, so the wait is to be given up.
 */
bool nvs_python_interrupts(void);
