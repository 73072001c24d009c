/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses NCCL if there is one, as it sees by the address of a function that it was not
 * linked with: it says whether there is, and what the function answers.
 */
#include <stdio.h>

int ncclCommDestroy(void *comm) __attribute__((weak));

int main(void)
{
	if (ncclCommDestroy)
		printf("%d\n", ncclCommDestroy(NULL));
	else
		puts("none");
	return 0;
}
