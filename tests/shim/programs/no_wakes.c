/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the kernel has no memory for a single byte of the library's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

typedef ssize_t sender(int, const void *, size_t, int);

ssize_t send(int number, const void *data, size_t size, int flags)
{
	sender *real = (sender *)dlsym(RTLD_NEXT, "send");
	Dl_info object;

	if (size == 1 && dladdr(__builtin_return_address(0), &object) &&
	    strstr(object.dli_fname, "libnvshare.so")) {
		errno = ENOBUFS;
		return -1;
	}
	return real(number, data, size, flags);
}
