/* SPDX-License-Identifier: Apache-2.0 */
/*
 * void *dlsym(void *handle, const char *name)
 *
 * Names that do not begin with "cu" go straight on to the real dlsym, by a jump: it finds out by the return address who asks.
 * Others are shown to nvs_dlsym_hooked(handle, name, return address), which answers or lets them go on as well.
 */

#if defined(__x86_64__)

	.text
	.globl	dlsym
	.type	dlsym, @function
dlsym:
	.cfi_startproc
#ifdef __CET__
	endbr64
#endif
	cmpb	$'c', (%rsi)
	jne	.Lpass
	cmpb	$'u', 1(%rsi)
	jne	.Lpass
	movq	(%rsp), %rdx
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	nvs_dlsym_hooked
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rdx, %rdx
	jz	.Lpass
	ret
.Lpass:
	movq	nvs_real_dlsym(%rip), %rax
	testq	%rax, %rax
	jz	.Lfind
	jmpq	*%rax
.Lfind:
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	nvs_dlsym_find
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jz	.Lnone
	jmpq	*%rax
.Lnone:
	ret
	.cfi_endproc
	.size	dlsym, .-dlsym

#elif defined(__aarch64__)

	.text
	.globl	dlsym
	.type	dlsym, %function
	.p2align 2
dlsym:
	.cfi_startproc
	hint	#34			/* bti c */
	ldrb	w2, [x1]
	cmp	w2, #'c'
	b.ne	.Lpass
	ldrb	w2, [x1, #1]
	cmp	w2, #'u'
	b.ne	.Lpass
	mov	x2, x30
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	bl	nvs_dlsym_hooked
	mov	x16, x0
	mov	x17, x1
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	cbz	x17, .Lpass
	mov	x0, x16
	ret
.Lpass:
	adrp	x16, nvs_real_dlsym
	ldr	x16, [x16, :lo12:nvs_real_dlsym]
	cbz	x16, .Lfind
	br	x16
.Lfind:
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	bl	nvs_dlsym_find
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	cbz	x16, .Lnone
	br	x16
.Lnone:
	mov	x0, xzr
	ret
	.cfi_endproc
	.size	dlsym, .-dlsym

#else
#error "no dlsym for this machine"
#endif

	.section .note.GNU-stack, "", %progbits
