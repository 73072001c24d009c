/* SPDX-License-Identifier: Apache-2.0 */
/* contents.ptx, as a text that ends with a zero, under the name nvs_contents_ptx. */

	.section .rodata
	.globl	nvs_contents_ptx
	.hidden	nvs_contents_ptx
	.type	nvs_contents_ptx, %object
nvs_contents_ptx:
	.incbin	"memory/swap/contents.ptx"
	.byte	0
	.size	nvs_contents_ptx, .-nvs_contents_ptx

	.section .note.GNU-stack, "", %progbits
