/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients: one record and one thread for every device that the process uses. The thread alone
 * touches the record's lease and connection; others only set bits in `pending` and wake it through
 * `wake`.
 *
 * After fork the child's handler closes what was inherited, which would keep the parent's
 * connection open, and nvs_client_start begins anew; CLOEXEC serves exec. `fd_lock` keeps fork away
 * while a file is open of which the record does not know.
 */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../protocol/wire.h"
#include "clock.h"
#include "config.h"
#include "device.h"
#include "fork.h"
#include "lease.h"
#include "log.h"
#include "messages.h"
#include "thread.h"

#define FIRST_FD 256	   /* out of the way of the program's own small numbers */
#define FOOTPRINT_US 10000 /* the least time between two footprints */

enum {
	PENDING_WANT = 1,
	PENDING_FOOTPRINT = 2
};

struct nvs_client {
	struct nvs_device *device; /* NULL: not started in this process */
	_Atomic bool running;	   /* the thread was created */
	_Atomic unsigned int pending;
	int socket, wake; /* -1: none */
	struct nvs_lease lease;
	size_t received; /* bytes in `input` */
	struct nvs_frame input;
	/* the newest that the scheduler knows; when the next may go */
	uint64_t footprint_sent, footprint_at;
	bool broken; /* writing failed: the connection is to be ended */
};

static struct nvs_client clients[NVS_MAX_DEVICES];
static pthread_mutex_t fd_lock = PTHREAD_MUTEX_INITIALIZER;

static bool feed(struct nvs_client *client, const struct nvs_lease_event *event);

static void feed_kind(struct nvs_client *client, int kind)
{
	feed(client, &(struct nvs_lease_event){ .kind = kind });
}

static int out_of_the_way(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);

	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

/* The connection */

static void hang_up(struct nvs_client *client)
{
	pthread_mutex_lock(&fd_lock);
	if (client->socket >= 0)
		close(client->socket);
	client->socket = -1;
	pthread_mutex_unlock(&fd_lock);
	client->received = 0;
	client->broken = false;
}

static void dial(struct nvs_client *client)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	bool connected;

	_Static_assert(sizeof(address.sun_path) == sizeof(nvs_config()->socket_path),
		       "the path is copied as it is");
	memcpy(address.sun_path, nvs_config()->socket_path, sizeof(address.sun_path));
	pthread_mutex_lock(&fd_lock);
	client->socket =
		out_of_the_way(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	pthread_mutex_unlock(&fd_lock);
	connected = client->socket >= 0 && address.sun_path[0] &&
		    !connect(client->socket, (struct sockaddr *)&address, sizeof(address));
	if (!connected)
		hang_up(client);
	feed_kind(client, connected ? NVS_EVENT_CONNECTED : NVS_EVENT_CONNECT_FAILED);
}

/*
 * A frame is sent as a whole or not at all; where there is no room for one, nobody has read
 * hundreds.
 */
static void post(struct nvs_client *client, const struct nvs_frame *frame)
{
	if (send(client->socket, frame, sizeof(*frame), MSG_NOSIGNAL | MSG_DONTWAIT) !=
	    (ssize_t)sizeof(*frame))
		client->broken = true;
}

static void post_register(struct nvs_client *client, const struct nvs_lease_action *action)
{
	struct nvs_frame frame;

	atomic_fetch_and(&client->pending, ~(unsigned int)PENDING_FOOTPRINT);
	nvs_message_register(&frame, client->device, &client->lease, action);
	client->footprint_sent = frame.footprint_bytes;
	post(client, &frame);
}

static void post_footprint(struct nvs_client *client, uint64_t now)
{
	struct nvs_frame frame;

	atomic_fetch_and(&client->pending, ~(unsigned int)PENDING_FOOTPRINT);
	nvs_message_footprint(&frame, client->device);
	if (frame.footprint_bytes == client->footprint_sent)
		return;
	client->footprint_sent = frame.footprint_bytes;
	client->footprint_at = now + FOOTPRINT_US;
	post(client, &frame);
}

/* Tells the lease of one frame; false: there is no whole one now, or no connection any more. */
static bool read_frame(struct nvs_client *client)
{
	const struct nvs_frame *frame = &client->input;
	char *rest = (char *)&client->input + client->received;
	ssize_t got = recv(client->socket, rest, sizeof(*frame) - client->received, MSG_DONTWAIT);
	struct nvs_lease_event event;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0) {
		feed_kind(client, NVS_EVENT_DISCONNECTED);
		return false;
	}
	client->received += (size_t)got;
	event = nvs_lease_event_of(frame);
	if (client->received < sizeof(*frame)) {
		/* What is no frame at all may be shorter than one and is not waited for. */
		if (frame->magic != NVS_WIRE_MAGIC ||
		    (client->received > 1 && frame->version != NVS_WIRE_VERSION))
			feed_kind(client, NVS_EVENT_BAD_FRAME);
		return false;
	}
	client->received = 0;
	if (!feed(client, &event))
		feed_kind(client, NVS_EVENT_BAD_FRAME);
	return client->socket >= 0;
}

/* What the lease asks for */

/* To a scheduler that went meanwhile the lock cannot be given back, so the lease must know. */
static void drain(struct nvs_client *client)
{
	struct pollfd connection = { .fd = client->socket, .events = POLLRDHUP };

	nvs_gate_drain(client->device);
	if (poll(&connection, 1, 0) > 0)
		feed_kind(client, NVS_EVENT_DISCONNECTED);
	feed(client, &(struct nvs_lease_event){
			     .kind = NVS_EVENT_DRAINED,
			     .waiting = atomic_load(&client->device->gate.waiting) > 0 });
}

static void look(struct nvs_client *client)
{
	struct nvs_lease_event event = { .kind = NVS_EVENT_LOOKED };

	event.submissions = nvs_gate_submissions(client->device);
	event.settled = nvs_gate_settle(client->device);
	feed(client, &event);
}

static void open_gate(struct nvs_client *client)
{
	nvs_gate_open(client->device);
	/*
	 * Whoever asked until now found the gate closed before this; only this thread closes it
	 * again.
	 */
	atomic_fetch_and(&client->pending, ~(unsigned int)PENDING_WANT);
}

static void carry_out(struct nvs_client *client, const struct nvs_lease_action *action)
{
	struct nvs_frame frame;

	switch (action->kind) {
	case NVS_ACTION_CONNECT:
		dial(client);
		break;
	case NVS_ACTION_DISCONNECT:
		hang_up(client);
		break;
	case NVS_ACTION_SEND_REGISTER:
		post_register(client, action);
		break;
	case NVS_ACTION_SEND_REQ_LOCK:
		/*
		 * Whether the client fits beside others is decided by its footprint, so the newest
		 * one goes first.
		 */
		post_footprint(client, nvs_now_us());
		nvs_message_request(&frame);
		post(client, &frame);
		break;
	case NVS_ACTION_SEND_LOCK_RELEASED:
		nvs_message_release(&frame, action->grant);
		post(client, &frame);
		break;
	case NVS_ACTION_OPEN_GATE:
		open_gate(client);
		break;
	case NVS_ACTION_DRAIN:
		drain(client);
		break;
	case NVS_ACTION_FAIL_GATE:
		nvs_gate_fail(client->device);
		break;
	case NVS_ACTION_CLOSE_GATE:
		nvs_gate_drain(client->device);
		break;
	case NVS_ACTION_LOOK:
		look(client);
		break;
	default:
		nvs_message_warn(action->kind, &client->input);
	}
}

static bool feed(struct nvs_client *client, const struct nvs_lease_event *event)
{
	struct nvs_lease *lease = &client->lease;
	struct nvs_lease_actions actions;
	int link = lease->link, lock = lease->lock;

	if (!nvs_lease_handle(lease, event, nvs_now_us(), &actions)) {
		nvs_debug("device %d: %s came while link %s, lock %s", client->device->ordinal,
			  nvs_lease_event_name(event->kind), nvs_link_name(link),
			  nvs_lock_name(lock));
		return false;
	}
	if (lease->link != link || lease->lock != lock)
		nvs_debug("device %d: %s: link %s, lock %s, grant %llu", client->device->ordinal,
			  nvs_lease_event_name(event->kind), nvs_link_name(lease->link),
			  nvs_lock_name(lease->lock), (unsigned long long)lease->grant);
	for (uint32_t i = 0; i < actions.count; i++)
		carry_out(client, &actions.list[i]);
	return true;
}

/* The thread */

static bool footprint_due(const struct nvs_client *client)
{
	return client->lease.link == NVS_LINK_UP &&
	       atomic_load(&client->pending) & PENDING_FOOTPRINT;
}

static void handle_pending(struct nvs_client *client)
{
	uint64_t now = nvs_now_us();

	if (atomic_fetch_and(&client->pending, ~(unsigned int)PENDING_WANT) & PENDING_WANT)
		feed_kind(client, NVS_EVENT_WANTED);
	if (now >= nvs_lease_deadline(&client->lease))
		feed_kind(client, NVS_EVENT_TIMER);
	if (footprint_due(client) && now >= client->footprint_at)
		post_footprint(client, now);
	if (client->broken)
		feed_kind(client, NVS_EVENT_DISCONNECTED);
}

static void wait_for_something(struct nvs_client *client, struct pollfd *fds)
{
	uint64_t deadline = nvs_lease_deadline(&client->lease), now = nvs_now_us(), left;
	struct timespec timeout;

	if (footprint_due(client) && client->footprint_at < deadline)
		deadline = client->footprint_at;
	left = deadline > now ? deadline - now : 0;
	timeout = (struct timespec){ .tv_sec = (time_t)(left / 1000000),
				     .tv_nsec = (long)(left % 1000000) * 1000 };
	fds[0] = (struct pollfd){ .fd = client->wake, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = client->socket, .events = POLLIN };
	if (ppoll(fds, 2, deadline == NVS_LEASE_NEVER ? NULL : &timeout, NULL) <= 0)
		fds[0].revents = fds[1].revents = 0;
}

static void handle_files(struct nvs_client *client, const struct pollfd *fds)
{
	uint64_t count;

	if (fds[0].revents & POLLNVAL)
		/* the program closed it, as it does with every file; ppoll passes over -1 */
		client->wake = -1;
	else if (fds[0].revents)
		(void)!read(client->wake, &count, sizeof(count));
	/* Those who asked before the scheduler's frame came are told first. */
	handle_pending(client);
	if (fds[1].revents && client->socket == fds[1].fd)
		while (read_frame(client))
			;
}

static void *run(void *argument)
{
	struct nvs_client *client = argument;
	struct pollfd fds[2];

	for (;;) {
		handle_pending(client);
		wait_for_something(client, fds);
		handle_files(client, fds);
	}
	return NULL;
}

/* False: there is no thread; a later call may have more luck. */
static bool start_thread(struct nvs_client *client)
{
	if (atomic_exchange(&client->running, true))
		return true;
	if (client->wake >= 0 && nvs_thread_create(run, client))
		return true;
	atomic_store(&client->running, false);
	return false;
}

static void do_without_thread(struct nvs_device *device)
{
	nvs_log("no thread can be created for device %d: it is used as if there were no scheduler",
		device->ordinal);
	if (nvs_config()->on_missing == NVS_ON_MISSING_RUN)
		nvs_gate_open(device);
	else if (nvs_config()->on_missing == NVS_ON_MISSING_FAIL)
		nvs_gate_fail(device);
}

static void before_fork(void)
{
	pthread_mutex_lock(&fd_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&fd_lock);
}

static void after_fork_in_child(void)
{
	for (struct nvs_client *client = clients; client < clients + NVS_MAX_DEVICES; client++) {
		if (client->device && client->socket >= 0)
			close(client->socket);
		if (client->device && client->wake >= 0)
			close(client->wake);
		client->device = NULL;
	}
	pthread_mutex_unlock(&fd_lock);
}

static void watch_forks(void)
{
	nvs_at_fork(before_fork, after_fork, after_fork_in_child);
}

void nvs_client_start(struct nvs_device *device)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct nvs_client *client = &clients[device->ordinal];
	int saved = errno;

	pthread_once(&once, watch_forks);
	memset(client, 0, sizeof(*client));
	client->socket = -1;
	pthread_mutex_lock(&fd_lock);
	client->wake = out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	client->device = device;
	pthread_mutex_unlock(&fd_lock);
	nvs_lease_init(&client->lease, nvs_config()->on_missing, (uint32_t)getpid(), nvs_now_us());
	device->client = client;
	if (!start_thread(client))
		do_without_thread(device);
	errno = saved;
}

static void notify(struct nvs_client *client, unsigned int what)
{
	int saved = errno;

	if (!(atomic_fetch_or(&client->pending, what) & what))
		(void)!write(client->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
	errno = saved;
}

void nvs_client_want(struct nvs_device *device)
{
	notify(device->client, PENDING_WANT);
	start_thread(device->client);
}

void nvs_client_footprint(struct nvs_device *device)
{
	notify(device->client, PENDING_FOOTPRINT);
}
