/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real driver: its functions, in typed slots made from hooks.def, and the hooks that stand for
 * them.
 */
#pragma once

#include <stdbool.h>

#include "cuda/abi.h"

/* The driver's own functions; read them through NVS_REAL. */
struct nvs_real {
#define EACH(symbol, parameters) CUresult(*symbol) parameters;
#include "hooks.def"
};
extern struct nvs_real nvs_real;

#define EACH(symbol, parameters) CUresult nvs_hook_##symbol parameters;
#include "hooks.def"
#define LOOK(symbol, parameters, arguments) CUresult nvs_body_##symbol parameters;
#define HOOK(symbol, parameters) CUresult nvs_body_##symbol parameters;
#include "hooks.def"

/*
 * Of an exported function: callers outside find it as `symbol`, we as nvs_hook_symbol, whoever else
 * defines that name.
 */
#define NVS_EXPORTED(symbol, parameters)  \
	extern CUresult symbol parameters \
		__attribute__((alias("nvs_hook_" #symbol), visibility("default")));

/* One that is not the door's. */
#define NVS_EXPORT(symbol, ...)             \
	NVS_EXPORTED(symbol, (__VA_ARGS__)) \
	CUresult nvs_hook_##symbol(__VA_ARGS__)

/* What an exported function does once it is through the door (hooks/door.c). */
#define NVS_HOOK(symbol, ...) CUresult nvs_body_##symbol(__VA_ARGS__)

/* The driver's function of that name; NULL: no driver is loaded, or it has none. */
#define NVS_REAL(symbol)                                                                 \
	__extension__({                                                                  \
		__typeof__(nvs_real.symbol) nvs_real_ =                                  \
			__atomic_load_n(&nvs_real.symbol, __ATOMIC_RELAXED);             \
		if (__builtin_expect(!nvs_real_, 0)) {                                   \
			nvs_driver_load();                                               \
			nvs_real_ = __atomic_load_n(&nvs_real.symbol, __ATOMIC_RELAXED); \
		}                                                                        \
		nvs_real_;                                                               \
	})

/* Calls the driver's function; CUDA_ERROR_NOT_FOUND when it has none. */
#define NVS_CALL(symbol, ...)                                                        \
	__extension__({                                                              \
		__typeof__(nvs_real.symbol) nvs_call_ = NVS_REAL(symbol);            \
		nvs_call_ ? nvs_call_(__VA_ARGS__) : (CUresult)CUDA_ERROR_NOT_FOUND; \
	})

struct nvs_hook {
	const char *name;
	void *replacement;
	bool passes; /* it does nothing but pass the door, if that */
};

/*
 * Fills the slots when a driver has been loaded since the last call. Takes the dynamic loader's
 * lock, so it must not be called for the first time while a lock of ours is held: a hook calls a
 * driver's function before it takes one.
 */
void nvs_driver_load(void);
/*
 * Loads, and makes the hooks what the dynamic loader finds in the driver itself: for objects whose
 * look-ups don't begin with us. As little allowed with a lock of ours as nvs_driver_load. False: no
 * driver is loaded yet.
 */
bool nvs_driver_redirect(void);
/* A library that is loaded stays in memory for as long as the process lives. */
void nvs_keep_in_memory(const char *soname);
/* The hook of that name; NULL: not hooked. */
const struct nvs_hook *nvs_hook_named(const char *name);
/* The hook at `replacement`; NULL: there is none. */
const struct nvs_hook *nvs_hook_of(const void *replacement);
/* The driver's function behind a hook; NULL: no driver is loaded, or it has none. */
void *nvs_hook_real(const struct nvs_hook *hook);
/* What replaces the driver's function at `real`; NULL: nothing does. */
void *nvs_hook_at(const void *real);
