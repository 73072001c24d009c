/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ties the client of one device to others, and how much of it the scheduler knows. Pure. A tie
 * may be held several times: it is told once, and ends when nobody holds it any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/wire.h"

/* cdef begin */
#define NVS_TIES_MOST 256

enum nvs_tie_state {
	NVS_TIE_NEW = 0,   /* the scheduler does not know it */
	NVS_TIE_TOLD = 1,  /* JOIN was sent, as `request` */
	NVS_TIE_JOINED = 2 /* it is in effect */
};

struct nvs_tie {
	uint8_t key[NVS_WIRE_KEY_BYTES];
	uint32_t tie;	/* enum nvs_wire_tie */
	uint32_t size;	/* how many belong together; 0: not known */
	uint32_t holds; /* 0: LEAVE is to be sent */
	uint32_t request;
	int state;	   /* enum nvs_tie_state */
	bool was_complete; /* it was in effect, maybe by another scheduler's word */
};

struct nvs_tie_list {
	uint32_t count;
	uint32_t requests; /* the newest number */
	struct nvs_tie ties[NVS_TIES_MOST];
};

/* Holds a tie once more. False: there is no room for another one. */
bool nvs_tie_list_add(struct nvs_tie_list *list, const uint8_t *key, uint32_t tie, uint32_t size);
/* Holds it once less. False: nobody held it. */
bool nvs_tie_list_drop(struct nvs_tie_list *list, const uint8_t *key, uint32_t tie);
/* Puts what is to be said next into a JOIN or LEAVE, of which it then counts as said. */
bool nvs_tie_list_say(struct nvs_tie_list *list, struct nvs_frame *frame);
/* JOINED came. False: for a request that was never made. */
bool nvs_tie_list_heard(struct nvs_tie_list *list, uint32_t request);
/* There is another scheduler, which knows nothing. */
void nvs_tie_list_forget(struct nvs_tie_list *list);
/* The tie; NULL: nobody holds it. */
const struct nvs_tie *nvs_tie_list_find(const struct nvs_tie_list *list, const uint8_t *key,
					uint32_t tie);
/* Whether any tie is held. */
bool nvs_tie_list_holds(const struct nvs_tie_list *list);
/* cdef end */
