/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda.so, the name by which some programs open the driver. On a machine with a GPU it is a link
 * to libcuda.so.1, but a wheel carries no links, and a copy would be a second driver in the
 * process. So it is an empty library that needs the other one: whoever looks a symbol up in it
 * finds that of libcuda.so.1.
 */
