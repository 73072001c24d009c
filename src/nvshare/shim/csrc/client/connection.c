/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of a connection. No state beside the record that is passed in; files.c keeps fork away
 * while the socket is opened or closed.
 */
#define _GNU_SOURCE
#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "process/config.h"
#include "process/ends.h"
#include "process/files.h"

#define CLIENT_SOCKET "/client/scheduler.sock"

/* Cuts the last part off a path; "." when nothing is before it. */
static void parent_of(char *path)
{
	char *end = strrchr(path, '/');

	if (!end)
		strcpy(path, ".");
	else
		end[end == path] = '\0';
}

/* The run directory into `folder`; false: it is in a folder where only its owner may write. */
static bool in_public_folder(const char *socket_path,
			     char folder[sizeof(((struct sockaddr_un *)0)->sun_path)])
{
	char parent[sizeof(((struct sockaddr_un *)0)->sun_path)];
	size_t length = strlen(socket_path), tail = strlen(CLIENT_SOCKET);
	struct stat found;

	if (length <= tail || length >= sizeof(parent))
		return false;
	memcpy(folder, socket_path, length - tail);
	folder[length - tail] = '\0';
	memcpy(parent, folder, length - tail + 1);
	parent_of(parent);
	return !stat(parent, &found) && found.st_mode & S_IWOTH;
}

const char *nvs_distrust(const char *socket_path)
{
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct stat found;

	if (!in_public_folder(socket_path, folder) || lstat(folder, &found))
		return NULL;
	if (!S_ISDIR(found.st_mode))
		return "its folder is a link or a file that anybody may have made";
	if (found.st_uid && found.st_uid != geteuid())
		return "its folder belongs to another user";
	if (found.st_mode & (S_IWGRP | S_IWOTH))
		return "others may write to its folder";
	return NULL;
}

/*
 * Whether who listens at the other end of `socket`, connected to the path, may be believed. Where
 * everybody may write, as in /tmp, anybody may have made a run directory to be believed;
 * unix_sockets.py keeps the same rule.
 */
static bool may_be_believed(const char *socket_path, int socket)
{
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct stat found;

	if (!in_public_folder(socket_path, folder))
		return true;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return false;
	if (!peer.uid || peer.uid == geteuid() || peer.uid == getuid())
		return true;
	/* In a user namespace the host's root has another number, as has what belongs to it. */
	strcpy(folder, socket_path);
	parent_of(folder);
	return !stat(folder, &found) && found.st_uid == peer.uid;
}

void nvs_connection_close_files(struct nvs_connection *connection)
{
	nvs_file_close(&connection->descriptor);
	nvs_file_close(&connection->spare);
	nvs_file_close(&connection->socket);
}

void nvs_connection_close(struct nvs_connection *connection)
{
	nvs_files_lock();
	nvs_connection_close_files(connection);
	nvs_files_unlock();
	connection->received = 0;
	connection->text_length = 0;
	connection->broken = false;
	atomic_store(&connection->listener, 0);
}

bool nvs_connection_lost(struct nvs_connection *connection)
{
	if (!nvs_file_lost(&connection->socket))
		return false;
	connection->broken = connection->taken = true;
	return true;
}

/* False: errno says why, and there is no connection. */
static bool open_to(struct nvs_connection *connection, const struct sockaddr_un *address,
		    socklen_t size)
{
	int failure, number;

	connection->taken = false;
	nvs_files_lock();
	connection->socket =
		nvs_file_of(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	nvs_files_unlock();
	number = nvs_file_number(&connection->socket);
	if (number >= 0 && !connect(number, (const struct sockaddr *)address, size))
		return true;
	failure = errno;
	nvs_connection_close(connection);
	errno = failure;
	return false;
}

static bool open_at(struct nvs_connection *connection, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	errno = ENOENT;
	return address.sun_path[0] && open_to(connection, &address, sizeof(address));
}

static bool listens(const struct nvs_connection *connection, struct nvs_peer *owner)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(nvs_file_number(&connection->socket), SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return false;
	*owner = (struct nvs_peer){ .pid = (uint32_t)peer.pid, .uid = peer.uid };
	return true;
}

/*
 * A scheduler that has no time to accept now is one that is there: nobody else is asked in its
 * place.
 */
bool nvs_connection_open(struct nvs_connection *connection)
{
	const struct nvs_config *config = nvs_config();
	struct nvs_peer owner;

	for (size_t i = 0; i < config->socket_count; i++) {
		const char *path = config->sockets[i];

		if (!*path || nvs_distrust(path))
			continue;
		if (!open_at(connection, path)) {
			if (errno == EAGAIN)
				return false;
		} else if (may_be_believed(path, nvs_file_number(&connection->socket))) {
			connection->path = path;
			atomic_store(&connection->listener,
				     listens(connection, &owner) ? owner.pid : 0);
			return true;
		} else {
			nvs_connection_close(connection);
		}
	}
	return false;
}

bool nvs_connection_answers(const char *path)
{
	struct nvs_connection connection = NVS_NO_CONNECTION;
	bool answers = open_at(&connection, path);

	nvs_connection_close(&connection);
	return answers;
}

bool nvs_connection_peer(const char *name, struct nvs_peer *owner)
{
	struct nvs_connection connection = NVS_NO_CONNECTION;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(name);
	bool found;

	if (length >= sizeof(address.sun_path))
		return false;
	memcpy(address.sun_path + 1, name, length);
	found = open_to(&connection, &address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) &&
		listens(&connection, owner);
	nvs_connection_close(&connection);
	return found;
}

/*
 * A frame is sent as a whole or not at all; where there is no room for one, nobody has read
 * hundreds.
 */
void nvs_connection_send(struct nvs_connection *connection, const struct nvs_frame *frame)
{
	/* NOSIGNAL: SIGPIPE would end a program that knows nothing of this socket. */
	if (nvs_connection_lost(connection) ||
	    send(connection->socket.number, frame, sizeof(*frame), MSG_NOSIGNAL | MSG_DONTWAIT) !=
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

	if (nvs_connection_lost(connection))
		return true;
	memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
	went = sendmsg(connection->socket.number, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
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
		if (connection->descriptor.number < 0) {
			connection->descriptor = nvs_file_of(received[i]);
		} else {
			close(received[i]);
			kept = false;
		}
	return kept && !(message->msg_flags & MSG_CTRUNC);
}

/*
 * With nvs_files_lock held. A program may have all its numbers in use, for good; a frame whose
 * descriptor gets none has lost it.
 */
static void keep_spare(struct nvs_connection *connection)
{
	NVS_KEEP_ERRNO;

	if (connection->spare.number < 0)
		connection->spare = nvs_file_of(
			fcntl(nvs_file_number(&connection->socket), F_DUPFD_CLOEXEC, 0));
}

bool nvs_connection_has_spare(struct nvs_connection *connection)
{
	nvs_files_lock();
	keep_spare(connection);
	nvs_files_unlock();
	return connection->spare.number >= 0;
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

	if (nvs_connection_lost(connection))
		return 0;
	nvs_files_lock();
	nvs_file_close(&connection->spare);
	got = recvmsg(connection->socket.number, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	*wrong = got > 0 && !keep_descriptor(connection, &message);
	if (connection->descriptor.number < 0)
		keep_spare(connection);
	nvs_files_unlock();
	return got;
}

/* What is too long is cut: no scheduler says so much. */
static void append_text(struct nvs_connection *connection)
{
	const char *piece = connection->input.text;
	size_t left = sizeof(connection->text) - 1 - connection->text_length;
	size_t length = strnlen(piece, sizeof(connection->input.text));

	for (size_t i = 0; i < length && i < left; i++)
		connection->text[connection->text_length++] =
			(unsigned char)piece[i] < ' ' || piece[i] == 0x7f ? '?' : piece[i];
	connection->text[connection->text_length] = '\0';
}

/* Whether what has come is only the beginning of the next frame's text. */
static bool is_piece(const struct nvs_frame *frame)
{
	return frame->magic == NVS_WIRE_MAGIC && frame->version == NVS_WIRE_VERSION &&
	       frame->type == NVS_TEXT;
}

static bool has_text(const struct nvs_frame *frame)
{
	return frame->type == NVS_REFUSED || frame->type == NVS_REASON ||
	       frame->type == NVS_REFUSE_GROWTH || frame->type == NVS_NOT_SHARED;
}

static enum nvs_received receive_frame(struct nvs_connection *connection)
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

enum nvs_received nvs_connection_receive(struct nvs_connection *connection)
{
	const struct nvs_frame *frame = &connection->input;
	enum nvs_received received = receive_frame(connection);

	while (received == NVS_RECEIVED_FRAME && is_piece(frame) &&
	       connection->descriptor.number < 0) {
		append_text(connection);
		received = receive_frame(connection);
	}
	if (received != NVS_RECEIVED_FRAME)
		return received;
	if (has_text(frame))
		append_text(connection);
	connection->text_length = 0;
	return received;
}
