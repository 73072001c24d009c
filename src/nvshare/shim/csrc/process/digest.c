/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256, as FIPS 180-4 describes it. What it is used for is small and rare, so it is short and
 * not fast. No state.
 */
#include "process/digest.h"

#include <string.h>

#define BLOCK_BYTES 64
#define LENGTH_BYTES 8

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotate(uint32_t word, unsigned int bits)
{
	return word >> bits | word << (32 - bits);
}

static void spread(uint32_t words[64], const uint8_t block[BLOCK_BYTES])
{
	for (size_t i = 0; i < 16; i++)
		words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
			   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (size_t i = 16; i < 64; i++) {
		uint32_t early = words[i - 15], late = words[i - 2];

		words[i] = words[i - 16] + words[i - 7] +
			   (rotate(early, 7) ^ rotate(early, 18) ^ early >> 3) +
			   (rotate(late, 17) ^ rotate(late, 19) ^ late >> 10);
	}
}

static void take_block(uint32_t state[8], const uint8_t block[BLOCK_BYTES])
{
	uint32_t words[64], s[8];

	spread(words, block);
	memcpy(s, state, sizeof(s));
	for (size_t i = 0; i < 64; i++) {
		uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
		uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
		uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
			       choice + constants[i] + words[i];
		uint32_t two = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += one;
		s[0] = one + two;
	}
	for (size_t i = 0; i < 8; i++)
		state[i] += s[i];
}

void nvs_digest(uint8_t digest[NVS_DIGEST_BYTES], const void *data, size_t bytes)
{
	uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	const uint8_t *at = data;
	uint8_t last[2 * BLOCK_BYTES] = { 0 };
	size_t left = bytes, end;

	for (; left >= BLOCK_BYTES; at += BLOCK_BYTES, left -= BLOCK_BYTES)
		take_block(state, at);
	memcpy(last, at, left);
	last[left] = 0x80;
	end = left + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
	for (size_t i = 0; i < LENGTH_BYTES; i++)
		last[end - 1 - i] = (uint8_t)((uint64_t)bytes * 8 >> 8 * i);
	for (size_t i = 0; i < end; i += BLOCK_BYTES)
		take_block(state, last + i);
	for (size_t i = 0; i < NVS_DIGEST_BYTES; i++)
		digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
