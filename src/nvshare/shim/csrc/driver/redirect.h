/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes what the dynamic loader finds in an object that is loaded: in its symbol table, for
 * look-ups from now on, and in the places where others noted earlier answers.
 */
#pragma once

#include <stdbool.h>

struct nvs_object;

/* A file through which the process's memory is written; -1: the system allows none. */
int nvs_redirect_begin(void);
/* Closes it, if there is one. */
void nvs_redirect_end(const int *memory);
/* Whoever looks for the function `name` in the object finds `to`. False: the memory resisted. */
bool nvs_redirect_symbol(int memory, const struct nvs_object *object, const char *name,
			 const void *to);
/*
 * Every object but `but` that has noted an address for which `instead` has another one gets that
 * one.
 */
bool nvs_redirect_notes(int memory, const struct nvs_object *but,
			void *(*instead)(const void *noted));
