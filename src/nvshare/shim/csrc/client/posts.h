/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client tells the scheduler of ties and terms, and its device of others.
 */
#ifndef NVSHARE_POSTS_H
#define NVSHARE_POSTS_H

struct nvs_client;

/* Also where nothing was asked for. */
void nvs_post_terms(struct nvs_client *client);
/* Those that the scheduler does not know. */
void nvs_post_ties(struct nvs_client *client);
/* Whether others wait for the device. */
void nvs_tell_others(struct nvs_client *client);

#endif
