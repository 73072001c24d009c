/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the settings and is the only reader of the environment. They are written once, inside
 * pthread_once, and constant after it. The names are those of paths.py; a test compares the two.
 */
#include "process/config.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/ends.h"
#include "protocol/gang.h"
#include "process/digest.h"
#include "process/log.h"
#include "process/on_missing.h"

#define RUN_DIR "NVSHARE_RUN_DIR"
#define MEMORY "NVSHARE_MEMORY"
#define ON_MISSING "NVSHARE_ON_MISSING"
#define DEBUG "NVSHARE_DEBUG"
#define SINGLE_OVERSUB "NVSHARE_ENABLE_SINGLE_OVERSUB"
#define GANG "NVSHARE_GANG"

#define SYSTEM_RUN_DIR "/var/run/nvshare"
#define CLIENT_SOCKET "client/scheduler.sock"

struct choice {
	const char *text;
	int value;
};

static const struct choice memories[] = { { "swap", NVS_MEMORY_SWAP },
					  { "managed", NVS_MEMORY_MANAGED },
					  { "native", NVS_MEMORY_NATIVE },
					  { NULL, 0 } };
static const struct choice policies[] = { { "wait", NVS_ON_MISSING_WAIT },
					  { "run", NVS_ON_MISSING_RUN },
					  { "fail", NVS_ON_MISSING_FAIL },
					  { NULL, 0 } };
static const char *const switches[] = { "0", "false", "no", "off", "1", "true", "yes", "on" };

static struct nvs_config settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *nvs_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/*
 * The value of the variable; the first choice when it is not set, or is wrong, which is said once.
 */
static int choose(const char *name, const struct choice *choices)
{
	const char *value = nvs_variable(name);
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

/* Any value was on in the original, so what is none of the words is, and that is said. */
static bool read_switch(const char *name)
{
	const size_t count = sizeof(switches) / sizeof(*switches);
	const char *value = nvs_variable(name);

	if (!value)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!strcasecmp(switches[i], value))
			return i >= count / 2;
	nvs_log("%s=%.200s is not one of 0, false, no, off, 1, true, yes, on; it counts as on",
		name, value);
	return true;
}

static void set_path(char *target, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void set_path(char *target, const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	if (length > 0 && (size_t)length < NVS_SOCKET_PATH_BYTES)
		memcpy(target, path, (size_t)length + 1);
	else
		nvs_log("the scheduler's socket %.300s has a path of %d bytes, and at most %zu are "
			"possible; set %s",
			path, length, NVS_SOCKET_PATH_BYTES - 1, RUN_DIR);
}

static void add_place(const char *run_dir)
{
	set_path(settings.sockets[settings.socket_count++], "%s/" CLIENT_SOCKET, run_dir);
}

/*
 * ssh, cron and su give one user different environments, so every place is looked at where a
 * scheduler of the user's own may be; a new one is at the last.
 */
static void add_own_places(void)
{
	char session[32], places[2][64], own[PATH_MAX];
	const char *runtime = nvs_variable("XDG_RUNTIME_DIR");
	struct stat found;

	snprintf(session, sizeof(session), "/run/user/%u", (unsigned int)getuid());
	snprintf(places[0], sizeof(places[0]), "%s/nvshare", session);
	snprintf(places[1], sizeof(places[1]), "/tmp/nvshare-%u", (unsigned int)getuid());
	if (runtime)
		snprintf(own, sizeof(own), "%s/nvshare", runtime);
	else
		strcpy(own,
		       !stat(session, &found) && S_ISDIR(found.st_mode) ? places[0] : places[1]);
	for (size_t i = 0; i < 2; i++)
		if (strcmp(places[i], own))
			add_place(places[i]);
	add_place(own);
}

/* The system's scheduler comes first, so that all users of the machine share its devices. */
static void find_sockets(void)
{
	const char *explicit_dir = nvs_variable(RUN_DIR);

	add_place(explicit_dir ? explicit_dir : SYSTEM_RUN_DIR);
	if (!explicit_dir && getuid())
		add_own_places();
}

/*
 * How many processes a gang has, as the text behind the last colon of its name says. 0: there is no
 * colon, or that is no such text, which is said.
 */
static uint32_t gang_size(const char *name)
{
	const char *colon = strrchr(name, ':');
	unsigned long size = 0;
	char *end = NULL;

	if (!colon)
		return 0;
	/* strtoul takes signs as well. */
	if (colon > name && colon[1] >= '0' && colon[1] <= '9')
		size = strtoul(colon + 1, &end, 10);
	if (end && !*end && size >= 2 && size <= NVS_GANG_SLOTS)
		return (uint32_t)size;
	nvs_log("%s=%.200s is not NAME:SIZE with 2 to %d processes; all of it is taken as a name, "
		"without a size",
		GANG, name, NVS_GANG_SLOTS);
	return 0;
}

/* A short name can be read where keys are shown, so nothing in it may be an order to a terminal. */
static void read_gang(void)
{
	const char *name = nvs_variable(GANG);
	size_t length = name ? strlen(name) : 0;

	_Static_assert(NVS_DIGEST_BYTES == NVS_WIRE_KEY_BYTES, "a digest is a key");
	if (!name)
		return;
	for (size_t i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~') {
			nvs_log("%s is not made of visible ASCII characters alone; it is as if it "
				"were not set",
				GANG);
			return;
		}
	settings.gang = strcmp(name, "0") ? NVS_GANG_NAMED : NVS_GANG_NONE;
	settings.gang_size = gang_size(name);
	if (settings.gang_size)
		length = (size_t)(strrchr(name, ':') - name);
	if (length < sizeof(settings.gang_key))
		memcpy(settings.gang_key, name, length);
	else
		nvs_digest(settings.gang_key, name, length);
}

static void read_environment(void)
{
	settings.debug = read_switch(DEBUG);
	nvs_log_debug(settings.debug);
	settings.memory = choose(MEMORY, memories);
	settings.on_missing = choose(ON_MISSING, policies);
	settings.single_oversub = read_switch(SINGLE_OVERSUB);
	read_gang();
	find_sockets();
}

const struct nvs_config *nvs_config(void)
{
	NVS_KEEP_ERRNO;

	pthread_once(&once, read_environment);
	return &settings;
}
