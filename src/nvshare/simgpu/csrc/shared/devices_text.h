/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text that says which devices are simulated, for example "2x16GiB" or
 * "Fast:16GiB,8GiB/128MiB".
 *
 *   devices := item { "," item }
 *   item    := [ COUNT "x" ] [ NAME ":" ] SIZE [ "/" SIZE [ "+" SIZE ] ] [ "@" RATE ]
 *   SIZE    := a size as in protocol/size.h, more than 0 and at most 1TiB
 *   RATE    := digits ( "MB/s" | "GB/s" )
 *
 * The first size is the device's memory, the second what each context takes of it, the third what a
 * context takes more at its first launch. The rate is that of the bus between the device and the
 * host, in one direction and for registered memory. Pure: no state, no I/O.
 */
#pragma once

#include <stdint.h>

#define SIM_MAX_DEVICES 32
#define SIM_NAME_BYTES 64
#define SIM_UUID_TEXT_BYTES 41
#define SIM_DEFAULT_DEVICES "2x16GiB"
#define SIM_DEVICES_FORM                                                                     \
	"[COUNTx][NAME:]SIZE[/CONTEXT_SIZE[+LAUNCH_SIZE]][@RATE],... with sizes like 16GiB " \
	"or 512MiB and rates like 12GB/s or 800MB/s, at most 32 devices of at most 1TiB"
#define SIM_DEVICES_ROOM                                                                          \
	"CONTEXT_SIZE, what each context takes of a device, has to be less than its SIZE; it is " \
	"256MiB where it is not given"

enum sim_devices_error {
	SIM_DEVICES_NOT_UNDERSTOOD = -1,
	SIM_DEVICES_CONTEXT_TOO_LARGE = -2,
};

struct sim_device_text {
	char name[SIM_NAME_BYTES];
	uint64_t total_bytes;
	uint64_t context_bytes;
	uint64_t launch_bytes;
	uint64_t bus_bytes_per_second;
};

/* Returns how many devices the text describes, or what is wrong with it. */
int sim_devices_parse(const char *text, struct sim_device_text devices[SIM_MAX_DEVICES]);

/* Writes "GPU-" and the UUID in the usual form. */
void sim_devices_write_uuid(const uint8_t uuid[16], char text[SIM_UUID_TEXT_BYTES]);
