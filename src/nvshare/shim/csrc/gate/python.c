/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets Python run its signal handlers in a thread that waits at a gate. Owns the addresses of the
 * functions of Python, which is never linked; no lock: whoever looks for them finds the same.
 *
 * Python's own handler of every signal only notes it; the program's handler runs when the main
 * thread comes back to the interpreter, which it does not while it waits here, maybe for an hour:
 * Ctrl-C would do nothing, and a container would be killed at the end of its grace period. So this
 * does what Python does in its own blocking calls (PEP 475): when a signal interrupts the wait, the
 * handlers run; when none raises an exception, the wait goes on. A handler that did raise is the
 * end of the wait. We may be called without the interpreter's lock, and our caller knows nothing of
 * exceptions: so it is kept in a pending call, which raises it as soon as the interpreter goes on.
 */
#include "gate/python.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "driver/symbols.h"
#include "process/log.h"

/* Of the stable ABI, from Python 3.2 on. */
#define FUNCTIONS(F)                                                        \
	F(int, Py_IsInitialized, (void))                                    \
	F(void *, PyGILState_GetThisThreadState, (void))                    \
	F(int, PyGILState_Ensure, (void))                                   \
	F(void, PyGILState_Release, (int state))                            \
	F(int, PyErr_CheckSignals, (void))                                  \
	F(void, PyErr_Fetch, (void **type, void **value, void **traceback)) \
	F(void, PyErr_Restore, (void *type, void *value, void *traceback))  \
	F(void, PyErr_WriteUnraisable, (void *object))                      \
	F(int, Py_AddPendingCall, (int (*function)(void *argument), void *argument))

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct {
	FUNCTIONS(MEMBER)
} python;
static _Atomic bool found;

struct exception {
	void *type, *value, *traceback;
};

static bool find(void)
{
	bool complete = true;

	if (atomic_load_explicit(&found, memory_order_acquire))
		return true;
#define FIND(result, name, parameters)                                           \
	if (complete) {                                                          \
		void *address = nvs_symbol_anywhere(#name);                      \
                                                                                 \
		__atomic_store_n(&python.name, (__typeof__(python.name))address, \
				 __ATOMIC_RELAXED);                              \
		complete = address != NULL;                                      \
	}
	FUNCTIONS(FIND)
	atomic_store_explicit(&found, complete, memory_order_release);
	return complete;
}

/* In the main thread, with the interpreter's lock. */
static int raise_again(void *argument)
{
	struct exception *exception = argument;

	python.PyErr_Restore(exception->type, exception->value, exception->traceback);
	free(exception);
	return -1;
}

/* With the interpreter's lock, and an exception set. */
static void hand_back(void)
{
	struct exception *exception = malloc(sizeof(*exception));

	if (exception) {
		python.PyErr_Fetch(&exception->type, &exception->value, &exception->traceback);
		if (!python.Py_AddPendingCall(raise_again, exception))
			return;
		raise_again(exception);
	}
	/* There is no room for it: shown, at least. */
	python.PyErr_WriteUnraisable(NULL);
}

bool nvs_python_interrupts(void)
{
	struct exception before;
	bool raised;
	int state;

	/*
	 * Threads that Python does not know are left alone; of the others only the main one runs
	 * handlers, which Python sees to.
	 */
	if (!find() || !python.Py_IsInitialized() || !python.PyGILState_GetThisThreadState())
		return false;
	state = python.PyGILState_Ensure();
	python.PyErr_Fetch(&before.type, &before.value, &before.traceback);
	raised = python.PyErr_CheckSignals() != 0;
	if (raised)
		hand_back();
	python.PyErr_Restore(before.type, before.value, before.traceback);
	python.PyGILState_Release(state);
	if (raised)
		nvs_log("interrupted by a signal's handler while waiting for the GPU; the call "
			"fails");
	return raised;
}
