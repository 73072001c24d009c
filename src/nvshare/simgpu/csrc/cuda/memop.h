/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out the operations that are neither kernels nor copies. */
#ifndef SIM_MEMOP_H
#define SIM_MEMOP_H

#include "engine.h"

/* memop.c */
CUresult sim_wait_value_run(const struct sim_op *op);
CUresult sim_write_value_run(const struct sim_op *op);
/* Turns one entry of a batch into an operation; false: it is not one that is known. */
bool sim_memop_prepare(const CUstreamBatchMemOpParams *params, struct sim_op *op);

/* exec.c */
CUresult sim_graph_op_run(const struct sim_op *op);
CUresult sim_event_node_wait(const struct sim_op *op);

/* pool.c */
CUresult sim_free_run(const struct sim_op *op);

/* memset.c */
CUresult sim_memset_check(const struct sim_memset *set);

#endif
