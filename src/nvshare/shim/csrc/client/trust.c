/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No state, no lock. Where everybody may write, as in /tmp, anybody may have made a run directory
 * to be believed; unix_sockets.py keeps the same rule.
 */
#define _GNU_SOURCE
#include "client/trust.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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

bool nvs_trust_peer(const char *socket_path, int socket)
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
