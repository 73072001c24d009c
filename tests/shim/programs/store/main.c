/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the case that is named. */
#include <string.h>

#include "store.h"

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(one_thread),
	CASE(eight_threads),
	CASE(queries),
	CASE(free_moving_out),
	CASE(free_staying),
	CASE(free_moving_in),
	CASE(free_going_back),
	CASE(frees),
	CASE(racing_frees),
	CASE(closed_gate),
	CASE(clean),
	CASE(refused),
	CASE(context_end),
	CASE(other_context),
	CASE(fork_child),
	CASE(pinned),
	CASE(peers),
	CASE(view),
	CASE(many),
	CASE(free_beside_work),
	CASE(one_hand),
	CASE(made_beside_work),
	CASE(given_back),
	CASE(refused_on_return),
	CASE(rights_return),
	CASE(peers_meanwhile),
};

int main(int count, char **arguments)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (count == 2 && !strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			return 0;
		}
	return 2;
}
