/* SPDX-License-Identifier: Apache-2.0 */
/* A library with nothing in it, to compare a preload with. */
int nothing_at_all;
