/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that look at device memory without submitting, made from hooks.def. No state. */
#include "driver/driver.h"
#include "gate/pass.h"
#include "memory/swap/look.h"

#define LOOK(symbol, parameters, arguments) \
	NVS_PASSING_HOOK(symbol, parameters, arguments, nvs_look_enter(&nvs_pass, NULL))
#include "hooks.def"
