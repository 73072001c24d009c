/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that only pass the gate, made from hooks.def. No state. */
#include "driver/driver.h"
#include "gate/pass.h"

#define GATE(symbol, parameters, arguments, stream) \
	NVS_PASSING_HOOK(symbol, parameters, arguments, nvs_gate_enter(&nvs_pass, stream))
#define COPY(symbol, parameters, arguments, stream, operands) /* in copy.c */
#include "hooks.def"
