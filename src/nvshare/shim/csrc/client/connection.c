/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of a connection. No state beside the record that is passed in; files.c keeps fork away
 * while the socket is opened or closed.
 */
#define _GNU_SOURCE
#include "client/connection.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/trust.h"
#include "process/config.h"
#include "process/files.h"

/* With nvs_files_lock held. */
static void close_descriptor(struct nvs_connection *connection)
{
	if (connection->descriptor >= 0)
		close(connection->descriptor);
	connection->descriptor = -1;
}

void nvs_connection_close_descriptor(struct nvs_connection *connection)
{
	nvs_files_lock();
	close_descriptor(connection);
	nvs_files_unlock();
}

void nvs_connection_close(struct nvs_connection *connection)
{
	nvs_files_lock();
	close_descriptor(connection);
	if (connection->socket >= 0)
		close(connection->socket);
	connection->socket = -1;
	nvs_files_unlock();
	connection->received = 0;
	connection->broken = false;
}

/* False: errno says why, and there is no connection. */
static bool open_at(struct nvs_connection *connection, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int failure;

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	nvs_files_lock();
	connection->socket =
		nvs_file_move(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	nvs_files_unlock();
	if (connection->socket >= 0 && address.sun_path[0] &&
	    !connect(connection->socket, (struct sockaddr *)&address, sizeof(address)))
		return true;
	failure = errno;
	nvs_connection_close(connection);
	errno = failure;
	return false;
}

/*
 * A scheduler that has no time to accept now is one that is there: nobody else is asked in its
 * place.
 */
bool nvs_connection_open(struct nvs_connection *connection)
{
	const struct nvs_config *config = nvs_config();

	for (size_t i = 0; i < NVS_SOCKETS; i++) {
		const char *path = config->sockets[i];

		if (!*path || nvs_distrust(path))
			continue;
		if (!open_at(connection, path)) {
			if (errno == EAGAIN)
				return false;
		} else if (nvs_trust_peer(path, connection->socket)) {
			connection->path = path;
			return true;
		} else {
			nvs_connection_close(connection);
		}
	}
	return false;
}

bool nvs_connection_answers(const char *path)
{
	struct nvs_connection connection = { .socket = -1, .descriptor = -1 };
	bool answers = open_at(&connection, path);

	nvs_connection_close(&connection);
	return answers;
}

/*
 * A frame is sent as a whole or not at all; where there is no room for one, nobody has read
 * hundreds.
 */
void nvs_connection_send(struct nvs_connection *connection, const struct nvs_frame *frame)
{
	/* NOSIGNAL: SIGPIPE would end a program that knows nothing of this socket. */
	if (send(connection->socket, frame, sizeof(*frame), MSG_NOSIGNAL | MSG_DONTWAIT) !=
	    (ssize_t)sizeof(*frame))
		connection->broken = true;
}

bool nvs_connection_send_with(struct nvs_connection *connection, const struct nvs_frame *frame,
			      int descriptor)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec all = { .iov_base = (void *)(uintptr_t)frame, .iov_len = sizeof(*frame) };
	struct msghdr message = {
		.msg_iov = &all,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t went;

	memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
	went = sendmsg(connection->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (went < 0 && errno == ETOOMANYREFS)
		return false;
	if (went != (ssize_t)sizeof(*frame))
		connection->broken = true;
	return true;
}

/* With nvs_files_lock held. False: more came than the one that a frame may have. */
static bool keep_descriptor(struct nvs_connection *connection, const struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int received[2]; /* what fits beside one because of the alignment */
	size_t count;
	bool kept = true;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		return true;
	count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(received, CMSG_DATA(control), count * sizeof(int));
	for (size_t i = 0; i < count; i++)
		if (connection->descriptor < 0) {
			connection->descriptor = nvs_file_move(received[i]);
		} else {
			close(received[i]);
			kept = false;
		}
	return kept && !(message->msg_flags & MSG_CTRUNC);
}

/*
 * A descriptor comes with the first byte of its frame, and no more than one frame is asked for. It
 * is noted before a fork can happen.
 */
static ssize_t receive(struct nvs_connection *connection, bool *wrong)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec rest = {
		.iov_base = (char *)&connection->input + connection->received,
		.iov_len = sizeof(connection->input) - connection->received,
	};
	struct msghdr message = {
		.msg_iov = &rest,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t got;

	nvs_files_lock();
	got = recvmsg(connection->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	*wrong = got > 0 && !keep_descriptor(connection, &message);
	nvs_files_unlock();
	return got;
}

enum nvs_received nvs_connection_receive(struct nvs_connection *connection)
{
	const struct nvs_frame *frame = &connection->input;
	bool wrong;
	ssize_t got = receive(connection, &wrong);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return NVS_RECEIVED_NOTHING;
	if (got <= 0)
		return NVS_RECEIVED_END;
	connection->received += (size_t)got;
	if (wrong)
		return NVS_RECEIVED_NO_FRAME;
	if (connection->received < sizeof(*frame)) {
		/* What is no frame at all may be shorter than one and is not waited for. */
		return frame->magic != NVS_WIRE_MAGIC || (connection->received > 1 &&
							  frame->version != NVS_WIRE_VERSION)
			       ? NVS_RECEIVED_NO_FRAME
			       : NVS_RECEIVED_NOTHING;
	}
	connection->received = 0;
	return NVS_RECEIVED_FRAME;
}
