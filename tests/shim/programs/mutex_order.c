/* SPDX-License-Identifier: Apache-2.0 */
/* Takes mutexes at the places of the order that its arguments name, one after the other. */
#include <stdio.h>
#include <stdlib.h>

#include "process/mutex.h"

int main(int count, char **places)
{
	for (int i = 1; i < count; i++) {
		struct nvs_mutex *mutex = malloc(sizeof(*mutex));

		*mutex = (struct nvs_mutex)NVS_MUTEX((enum nvs_order)atoi(places[i]));
		nvs_mutex_lock(mutex);
	}
	puts("taken");
	return 0;
}
