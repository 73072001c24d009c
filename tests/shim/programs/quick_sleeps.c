/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler that has the door closed and opens it as often as it can, because what it looks for
 * is rare: a call that is in the driver although the door is closed.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include "wire.h"

#define LOOK_NS 50000

void spy_sleep(bool sleeps);
int spy_disturbances(void);

int play_sleeps(int connection, int closings);

static bool say(int connection, uint8_t type)
{
	struct nvs_frame frame = {
		.magic = NVS_WIRE_MAGIC, .version = NVS_WIRE_VERSION, .type = type, .request = 1
	};

	return send(connection, &frame, sizeof(frame), MSG_NOSIGNAL) == sizeof(frame);
}

/* The answer to SLEEP; 0: it hung up. */
static uint8_t hear(int connection)
{
	struct nvs_frame frame = { 0 };

	while (frame.type != NVS_ASLEEP && frame.type != NVS_NOT_ASLEEP)
		if (recv(connection, &frame, sizeof(frame), MSG_WAITALL) != sizeof(frame))
			return 0;
	return frame.type;
}

/* How often the door was closed and nobody was inside, at most `closings` times; -1: it hung up. */
int play_sleeps(int connection, int closings)
{
	int closed = 0;

	while (closed < closings) {
		uint8_t answer = say(connection, NVS_SLEEP) ? hear(connection) : 0;

		if (!answer)
			return -1;
		if (answer == NVS_NOT_ASLEEP)
			continue;
		spy_sleep(true);
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
		spy_sleep(false);
		if (spy_disturbances())
			return closed;
		closed++;
		if (!say(connection, NVS_AWAKE))
			return -1;
	}
	return closed;
}
