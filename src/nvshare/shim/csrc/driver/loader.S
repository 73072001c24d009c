/* SPDX-License-Identifier: Apache-2.0 */
/*
 * void *dlsym(void *handle, const char *name)
 * void *dlvsym(void *handle, const char *name, const char *version)
 * void *dlopen(const char *file, int mode)
 * void *dlmopen(Lmid_t space, const char *file, int mode)
 *
 * Each goes on to the real one by a jump, with its arguments as they came: the real one finds out by the return address who
 * asks, and looks for names and files as that object may. Before that, what concerns us is shown to a function of loader.c:
 *
 *   dlsym    names that begin with "cu", "nc" or "nv", which nvs_dlsym_hooked may answer itself; while nvs_watching, all
 *   dlvsym   names that begin with "dl"
 *   dlopen   RTLD_DEEPBIND; while nvs_watching, all
 *   dlmopen  another namespace than the program's
 */

/* Places in nvs_loader_real. */
#define DLSYM 0
#define DLVSYM 1
#define DLOPEN 2
#define DLMOPEN 3

#define DEEPBIND 8

	.text

#if defined(__x86_64__)

	.macro	BEGIN name
	.globl	\name
	.type	\name, @function
	.globl	nvs_\name
	.hidden	nvs_\name
\name:
nvs_\name:
	.cfi_startproc
#ifdef __CET__
	endbr64
#endif
	.endm

	.macro	END name
	.cfi_endproc
	.size	\name, .-\name
	.endm

	/* The arguments come back; so do %rax, the answer, and its second half in %rcx. */
	.macro	ASK function
	.cfi_remember_state
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	.ifc \function, nvs_dlsym_hooked
	movq	24(%rsp), %rdx
	.endif
	.ifc \function, nvs_loader_find
	movl	%eax, %edi
	.endif
	call	\function
	movq	%rdx, %rcx
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_restore_state
	.endm

	.macro	GO_ON which
	movq	nvs_loader_real+8*\which(%rip), %rax
	testq	%rax, %rax
	jz	1f
	jmpq	*%rax
1:	movl	$\which, %eax
	ASK	nvs_loader_find
	testq	%rax, %rax
	jz	2f
	jmpq	*%rax
2:	ret
	.endm

BEGIN dlsym
	cmpl	$0, nvs_watching(%rip)
	jne	.Lask
	cmpb	$'c', (%rsi)
	jne	.Lnot_driver
	cmpb	$'u', 1(%rsi)
	je	.Lask
	jmp	.Lpass
.Lnot_driver:
	cmpb	$'n', (%rsi)
	jne	.Lpass
	cmpb	$'c', 1(%rsi)
	je	.Lask
	cmpb	$'v', 1(%rsi)
	jne	.Lpass
.Lask:
	ASK	nvs_dlsym_hooked
	testq	%rcx, %rcx
	jz	.Lpass
	ret
.Lpass:
	GO_ON	DLSYM
END dlsym

BEGIN dlvsym
	cmpb	$'d', (%rsi)
	jne	.Lversion
	cmpb	$'l', 1(%rsi)
	jne	.Lversion
	ASK	nvs_dlvsym_asked
.Lversion:
	GO_ON	DLVSYM
END dlvsym

BEGIN dlopen
	testl	$DEEPBIND, %esi
	jnz	.Lask_open
	cmpl	$0, nvs_watching(%rip)
	je	.Lopen
.Lask_open:
	ASK	nvs_dlopen_asked
.Lopen:
	GO_ON	DLOPEN
END dlopen

BEGIN dlmopen
	testq	%rdi, %rdi
	jz	.Lapart
	ASK	nvs_dlmopen_apart
.Lapart:
	GO_ON	DLMOPEN
END dlmopen

#elif defined(__aarch64__)

	.macro	BEGIN name
	.globl	\name
	.type	\name, %function
	.globl	nvs_\name
	.hidden	nvs_\name
	.p2align 2
\name:
nvs_\name:
	.cfi_startproc
	hint	#34			/* bti c */
	.endm

	.macro	END name
	.cfi_endproc
	.size	\name, .-\name
	.endm

	/* The arguments come back; the answer is in x16, its second half in x17. */
	.macro	ASK function
	.cfi_remember_state
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x29, -48
	.cfi_offset x30, -40
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	.ifc \function, nvs_dlsym_hooked
	mov	x2, x30
	.endif
	.ifc \function, nvs_loader_find
	mov	x0, x16
	.endif
	bl	\function
	mov	x16, x0
	mov	x17, x1
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore_state
	.endm

	.macro	GO_ON which
	adrp	x16, nvs_loader_real
	add	x16, x16, :lo12:nvs_loader_real
	ldr	x16, [x16, #8*\which]
	cbnz	x16, 1f
	mov	x16, #\which
	ASK	nvs_loader_find
	cbz	x16, 2f
1:	br	x16
2:	mov	x0, xzr
	ret
	.endm

BEGIN dlsym
	adrp	x16, nvs_watching
	ldr	w16, [x16, :lo12:nvs_watching]
	cbnz	w16, .Lask
	ldrb	w16, [x1]
	cmp	w16, #'c'
	b.ne	.Lnot_driver
	ldrb	w16, [x1, #1]
	cmp	w16, #'u'
	b.eq	.Lask
	b	.Lpass
.Lnot_driver:
	cmp	w16, #'n'
	b.ne	.Lpass
	ldrb	w16, [x1, #1]
	cmp	w16, #'c'
	b.eq	.Lask
	cmp	w16, #'v'
	b.ne	.Lpass
.Lask:
	ASK	nvs_dlsym_hooked
	cbz	x17, .Lpass
	mov	x0, x16
	ret
.Lpass:
	GO_ON	DLSYM
END dlsym

BEGIN dlvsym
	ldrb	w16, [x1]
	cmp	w16, #'d'
	b.ne	.Lversion
	ldrb	w16, [x1, #1]
	cmp	w16, #'l'
	b.ne	.Lversion
	ASK	nvs_dlvsym_asked
.Lversion:
	GO_ON	DLVSYM
END dlvsym

BEGIN dlopen
	tbnz	w1, #3, .Lask_open	/* DEEPBIND */
	adrp	x16, nvs_watching
	ldr	w16, [x16, :lo12:nvs_watching]
	cbz	w16, .Lopen
.Lask_open:
	ASK	nvs_dlopen_asked
.Lopen:
	GO_ON	DLOPEN
END dlopen

BEGIN dlmopen
	cbz	x0, .Lapart
	ASK	nvs_dlmopen_apart
.Lapart:
	GO_ON	DLMOPEN
END dlmopen

#else
#error "no dynamic loader's functions for this machine"
#endif

	.section .note.GNU-stack, "", %progbits
