/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver knows of an arena: it is registered piece by piece, so that copies go at the
 * link's full speed, and may be taken back while the process sleeps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_chunk;
struct nvs_device;

/* There is something to register. */
bool nvs_pieces_left(const struct nvs_device *device);
/* It is to be taken back from the driver: by the mover, behind the closed door. */
bool nvs_pieces_leave(const struct nvs_device *device);

/* For the mover, with a context of the device current. */

/* Registers the next piece; false: there is none, or the driver does not register any more. */
bool nvs_pieces_register(struct nvs_device *device);
/* Those in which the chunk's granules are, before it is copied, as far as the driver does. */
void nvs_pieces_register_of(const struct nvs_chunk *chunk);
/* The context in which pieces were registered may have ended: they are registered again. */
void nvs_pieces_register_again(struct nvs_device *device);
/* The driver knows none of those before `end` any more; false: it does not let them go. */
bool nvs_pieces_unregister(struct nvs_device *device, uint32_t piece, uint32_t end);
/* That was tried, or could not be: from here on there are pieces to register. */
void nvs_pieces_have_left(struct nvs_device *device);

/* For clients. */

/* The driver knows some of the arena. */
bool nvs_pieces_known(const struct nvs_device *device);
/* Has the movers of all devices take back what the driver knows. */
void nvs_pieces_take_back(void);
/* They still do; who hears NVS_NEWS_STORE looks again. */
bool nvs_pieces_leaving(void);
