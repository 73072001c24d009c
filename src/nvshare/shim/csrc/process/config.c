/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the settings and is the only reader of the environment. They are written once, inside
 * pthread_once, and constant after it. The names are those of paths.py; a test compares the two.
 */
#include "process/config.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/log.h"
#include "process/on_missing.h"
#include "protocol/wire.h"

#define RUN_DIR "NVSHARE_RUN_DIR"
#define MEMORY "NVSHARE_MEMORY"
#define ON_MISSING "NVSHARE_ON_MISSING"
#define DEBUG "NVSHARE_DEBUG"
#define SINGLE_OVERSUB "NVSHARE_ENABLE_SINGLE_OVERSUB"

#define CLIENT_SOCKET "client/scheduler.sock"

struct choice {
	const char *text;
	int value;
};

static const struct choice memories[] = { { "managed", NVS_BACKEND_MANAGED },
					  { "native", NVS_BACKEND_NATIVE },
					  { NULL, 0 } };
static const struct choice policies[] = { { "wait", NVS_ON_MISSING_WAIT },
					  { "run", NVS_ON_MISSING_RUN },
					  { "fail", NVS_ON_MISSING_FAIL },
					  { NULL, 0 } };
static const struct choice switches[] = { { "0", false }, { "1", true }, { NULL, 0 } };

static struct nvs_config settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/*
 * The value of the variable; the first choice when it is not set, or is wrong, which is said once.
 */
static int choose(const char *name, const struct choice *choices)
{
	const char *value = variable(name);
	char allowed[64] = "";

	if (!value)
		return choices->value;
	for (const struct choice *choice = choices; choice->text; choice++) {
		size_t length = strlen(allowed);

		if (!strcmp(choice->text, value))
			return choice->value;
		snprintf(allowed + length, sizeof(allowed) - length, "%s%s", length ? ", " : "",
			 choice->text);
	}
	nvs_log("%s=%.200s is not one of %s; using %s", name, value, allowed, choices->text);
	return choices->value;
}

static void find_socket(void)
{
	const char *explicit_dir = variable(RUN_DIR), *runtime = variable("XDG_RUNTIME_DIR");
	char path[PATH_MAX];
	int length;

	if (explicit_dir)
		length = snprintf(path, sizeof(path), "%s/" CLIENT_SOCKET, explicit_dir);
	else if (getuid() == 0)
		length = snprintf(path, sizeof(path), "/var/run/nvshare/" CLIENT_SOCKET);
	else if (runtime)
		length = snprintf(path, sizeof(path), "%s/nvshare/" CLIENT_SOCKET, runtime);
	else
		length = snprintf(path, sizeof(path), "/tmp/nvshare-%u/" CLIENT_SOCKET,
				  (unsigned int)getuid());

	if (length > 0 && (size_t)length < sizeof(settings.socket_path))
		memcpy(settings.socket_path, path, (size_t)length + 1);
	else
		nvs_log("the scheduler's socket %.300s has a path of %d bytes, and at most %zu are "
			"possible; set %s",
			path, length, sizeof(settings.socket_path) - 1, RUN_DIR);
}

static void read_environment(void)
{
	settings.debug = choose(DEBUG, switches);
	nvs_log_debug(settings.debug);
	settings.memory = choose(MEMORY, memories);
	settings.on_missing = choose(ON_MISSING, policies);
	settings.single_oversub = choose(SINGLE_OVERSUB, switches);
	find_socket();
}

const struct nvs_config *nvs_config(void)
{
	int saved = errno;

	pthread_once(&once, read_environment);
	errno = saved;
	return &settings;
}
