/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface of the CUDA driver, as far as nvshare looks at it: handles, result codes,
 * the numbers of flags and attributes, and the layout of the structures that it reads or writes.
 * Every type that a signature of entrypoints.tsv names is declared here; a structure that nobody
 * looks into stays incomplete. Enumerations of the driver are plain ints.
 *
 * Names of types and constants are the driver's, because programs and documentation speak of them;
 * the names of fields are ours. Layouts are those of 64-bit Linux and are asserted at the end of
 * the file.
 */
#ifndef NVSHARE_CUDA_ABI_H
#define NVSHARE_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Results */

typedef int CUresult;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_PROFILER_DISABLED = 5,
	CUDA_ERROR_PROFILER_NOT_INITIALIZED = 6,
	CUDA_ERROR_PROFILER_ALREADY_STARTED = 7,
	CUDA_ERROR_PROFILER_ALREADY_STOPPED = 8,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_MULTICAST_RESOURCE_FULL = 47,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_DEVICE_NOT_LICENSED = 102,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_CONTEXT_ALREADY_CURRENT = 202,
	CUDA_ERROR_MAP_FAILED = 205,
	CUDA_ERROR_UNMAP_FAILED = 206,
	CUDA_ERROR_ARRAY_IS_MAPPED = 207,
	CUDA_ERROR_ALREADY_MAPPED = 208,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_ALREADY_ACQUIRED = 210,
	CUDA_ERROR_NOT_MAPPED = 211,
	CUDA_ERROR_NOT_MAPPED_AS_ARRAY = 212,
	CUDA_ERROR_NOT_MAPPED_AS_POINTER = 213,
	CUDA_ERROR_ECC_UNCORRECTABLE = 214,
	CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
	CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_INVALID_GRAPHICS_CONTEXT = 219,
	CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
	CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
	CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224,
	CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225,
	CUDA_ERROR_CONTAINED = 226,
	CUDA_ERROR_INSUFFICIENT_LOADER_VERSION = 227,
	CUDA_ERROR_INVALID_SOURCE = 300,
	CUDA_ERROR_FILE_NOT_FOUND = 301,
	CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
	CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
	CUDA_ERROR_OPERATING_SYSTEM = 304,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_STATE = 401,
	CUDA_ERROR_LOSSY_QUERY = 402,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703,
	CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
	CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_ASSERT = 710,
	CUDA_ERROR_TOO_MANY_PEERS = 711,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
	CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
	CUDA_ERROR_MISALIGNED_ADDRESS = 716,
	CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
	CUDA_ERROR_INVALID_PC = 718,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
	CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
	CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
	CUDA_ERROR_MPS_RPC_FAILURE = 806,
	CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
	CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,
	CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,
	CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
	CUDA_ERROR_CDP_NOT_SUPPORTED = 811,
	CUDA_ERROR_CDP_VERSION_MISMATCH = 812,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
	CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_CAPTURED_EVENT = 907,
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
	CUDA_ERROR_TIMEOUT = 909,
	CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
	CUDA_ERROR_EXTERNAL_DEVICE = 911,
	CUDA_ERROR_INVALID_CLUSTER_SIZE = 912,
	CUDA_ERROR_FUNCTION_NOT_LOADED = 913,
	CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
	CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
	CUDA_ERROR_KEY_ROTATION = 916,
	CUDA_ERROR_STREAM_DETACHED = 917,
	CUDA_ERROR_GRAPH_RECAPTURE_FAILURE = 918,
	CUDA_ERROR_FABRIC_NOT_READY = 919,
	CUDA_ERROR_UNKNOWN = 999,
};

/* Scalars */

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef int CUdevice_v1;
typedef int CUdevice;
typedef unsigned int CUdeviceptr_v1; /* entry points from before CUDA 3.2 */
typedef unsigned long long CUdeviceptr_v2;
typedef CUdeviceptr_v2 CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle_v1;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef unsigned long long CUtexObject_v1;
typedef unsigned long long CUsurfObject_v1;
typedef cuuint64_t CUgraphConditionalHandle;
typedef cuuint32_t CUlogicalEndpointId;
typedef unsigned int CUlogIterator;

/* Handles */

typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUuserObject_st *CUuserObject;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct CUasyncCallbackEntry_st *CUasyncCallbackHandle;
typedef struct CUlogsCallbackEntry_st *CUlogsCallbackHandle;
typedef struct CUcoredumpCallbackEntry_st *CUcoredumpCallbackHandle;
typedef struct CUIcheckpointOperation_st *CUcheckpointOperationHandle;
typedef struct CUeglStreamConnection_st *CUeglStreamConnection;

/*
 * The two streams that have a number instead of an object; NULL means the first, or the second in a
 * _ptsz or _ptds entry point.
 */
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

/* Enumerations: their types, and the values that are looked at */

typedef int CUdevice_attribute;
typedef int CUdevice_P2PAttribute;
typedef int CUpointer_attribute;
typedef int CUfunction_attribute;
typedef int CUmem_range_attribute;
typedef int CUmemPool_attribute;
typedef int CUgraphMem_attribute;
typedef int CUlaunchAttributeID;
typedef int CUkernelNodeAttrID;
typedef int CUstreamAttrID;
typedef int CUlimit;
typedef int CUfunc_cache;
typedef int CUsharedconfig;
typedef int CUmem_advise;
typedef int CUmemorytype;
typedef int CUarray_format;
typedef int CUaddress_mode;
typedef int CUfilter_mode;
typedef int CUjit_option;
typedef int CUjitInputType;
typedef int CUlibraryOption;
typedef int CUmoduleLoadingMode;
typedef int CUfunctionLoadingState;
typedef int CUexecAffinityType;
typedef int CUmemLocationType;
typedef int CUmemAllocationType;
typedef int CUmemAllocationHandleType;
typedef int CUmemAllocationGranularity_flags;
typedef int CUmemAccess_flags;
typedef int CUoutput_mode;
typedef int CUGLDeviceList;
typedef int CUmemRangeHandleType;
typedef int CUmulticastGranularity_flags;
typedef int CUmemcpySrcAccessOrder;
typedef int CUmemcpy3DOperandType;
typedef int CUstreamCaptureMode;
typedef int CUstreamCaptureStatus;
typedef int CUstreamBatchMemOpType;
typedef int CUgraphNodeType;
typedef int CUgraphInstantiateResult;
typedef int CUgraphExecUpdateResult;
typedef int CUgraphRecaptureStatus;
typedef int CUgraphChildGraphNodeOwnership;
typedef int CUdriverProcAddressQueryResult;
typedef int CUdevResourceType;
typedef int CUcoredumpSettings;
typedef int CUprocessState;
typedef int CUlogLevel;
typedef int CUatomicOperation;
typedef int CUflushGPUDirectRDMAWritesTarget;
typedef int CUflushGPUDirectRDMAWritesScope;
typedef int CUlogicalEndpointIpcHandleType;
typedef int CUtensorMapDataType;
typedef int CUtensorMapInterleave;
typedef int CUtensorMapSwizzle;
typedef int CUtensorMapL2promotion;
typedef int CUtensorMapFloatOOBfill;
typedef int CUtensorMapIm2ColWideMode;
typedef int CUtensorMapAllocClass;

enum { /* contexts: flags */
	CU_CTX_SCHED_SPIN = 0x01,
	CU_CTX_SCHED_YIELD = 0x02,
	CU_CTX_SCHED_BLOCKING_SYNC = 0x04,
	CU_CTX_SCHED_MASK = 0x07,
	CU_CTX_MAP_HOST = 0x08,
	CU_CTX_LMEM_RESIZE_TO_MAX = 0x10,
	CU_CTX_COREDUMP_ENABLE = 0x20,
	CU_CTX_USER_COREDUMP_ENABLE = 0x40,
	CU_CTX_SYNC_MEMOPS = 0x80,
	CU_CTX_FLAGS_MASK = 0xff
};

enum { /* streams, events, entry point look-up: flags */
	CU_STREAM_DEFAULT = 0,
	CU_STREAM_NON_BLOCKING = 1,
	CU_EVENT_BLOCKING_SYNC = 1,
	CU_EVENT_DISABLE_TIMING = 2,
	CU_EVENT_INTERPROCESS = 4,
	CU_EVENT_RECORD_EXTERNAL = 1,
	CU_EVENT_WAIT_EXTERNAL = 1,
	CU_GET_PROC_ADDRESS_DEFAULT = 0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2
};

enum { /* CUdriverProcAddressQueryResult */
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
};

enum { /* memory: flags, and the host where a device is meant */
	CU_DEVICE_CPU = -1,
	CU_MEM_ATTACH_GLOBAL = 1,
	CU_MEM_ATTACH_HOST = 2,
	CU_MEM_ATTACH_SINGLE = 4,
	CU_MEMHOSTALLOC_PORTABLE = 1,
	CU_MEMHOSTALLOC_DEVICEMAP = 2,
	CU_MEMHOSTALLOC_WRITECOMBINED = 4,
	CU_MEMHOSTREGISTER_PORTABLE = 1,
	CU_MEMHOSTREGISTER_DEVICEMAP = 2,
	CU_MEMHOSTREGISTER_IOMEMORY = 4,
	CU_MEMHOSTREGISTER_READ_ONLY = 8,
	CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1
};

enum { /* CUmemorytype */
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4
};

enum { /* CUmemAllocationType, CUmemLocationType, handle types, access, granularity */
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
	CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
	CU_MEM_LOCATION_TYPE_INVALID = 0,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_LOCATION_TYPE_HOST = 2,
	CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
	CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
	CU_MEM_HANDLE_TYPE_NONE = 0,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
	CU_MEM_HANDLE_TYPE_FABRIC = 8,
	CU_MEM_CREATE_USAGE_TILE_POOL = 1,
	CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
	CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
};

enum { /* CUmemcpySrcAccessOrder, CUmemcpy3DOperandType */
	CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1,
	CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL = 2,
	CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3,
	CU_MEMCPY_OPERAND_TYPE_POINTER = 1,
	CU_MEMCPY_OPERAND_TYPE_ARRAY = 2
};

enum { /* CUmemPool_attribute */
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8
};

enum { /* CUgraphMem_attribute */
	CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0,
	CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
	CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
	CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3
};

enum { /* CUmem_advise, CUmem_range_attribute */
	CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
	CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
	CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
	CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
	CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
	CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
	CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
	CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 4,
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 5,
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 6,
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7,
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8
};

enum { /* CUpointer_attribute */
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
	CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_MAPPED = 13,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
	CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
	CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
	CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21
};

enum { /* CUdevice_attribute: those that depend on more than the model of the GPU */
	CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
	CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
	CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
	CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115
};

enum { /* CUstreamCaptureMode, CUstreamCaptureStatus, updates of a capture's dependencies */
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
	CU_STREAM_ADD_CAPTURE_DEPENDENCIES = 0,
	CU_STREAM_SET_CAPTURE_DEPENDENCIES = 1
};

enum { /* CUstreamBatchMemOpType, flags of waits and writes */
	CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
	CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
	CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
	CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
	CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
	CU_STREAM_MEM_OP_BARRIER = 6,
	CU_STREAM_WAIT_VALUE_GEQ = 0,
	CU_STREAM_WAIT_VALUE_EQ = 1,
	CU_STREAM_WAIT_VALUE_AND = 2,
	CU_STREAM_WAIT_VALUE_NOR = 3,
	CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30
};

enum { /* CUgraphNodeType */
	CU_GRAPH_NODE_TYPE_KERNEL = 0,
	CU_GRAPH_NODE_TYPE_MEMCPY = 1,
	CU_GRAPH_NODE_TYPE_MEMSET = 2,
	CU_GRAPH_NODE_TYPE_HOST = 3,
	CU_GRAPH_NODE_TYPE_GRAPH = 4,
	CU_GRAPH_NODE_TYPE_EMPTY = 5,
	CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
	CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
	CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
	CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
	CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12
};

enum { /* graphs: instantiation flags and results, update results */
	CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
	CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
	CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,
	CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8,
	CUDA_GRAPH_INSTANTIATE_SUCCESS = 0,
	CUDA_GRAPH_INSTANTIATE_ERROR = 1,
	CU_GRAPH_EXEC_UPDATE_SUCCESS = 0,
	CU_GRAPH_EXEC_UPDATE_ERROR = 1,
	CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 2,
	CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 3,
	CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED = 4,
	CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 5
};

enum { /* CUlaunchAttributeID */
	CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,
	CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
	CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12
};

/* Tags of the `extra` argument of a launch */
#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)

/* Functions of the program that the driver calls */

typedef void (*CUhostFn)(void *data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);
typedef size_t (*CUoccupancyB2DSize)(int block_size);
typedef struct CUgraphNodeParams_st CUgraphNodeParams;
struct CUasyncNotificationInfo_st;
typedef CUresult (*CUgraphRecaptureCallback)(void *data, CUgraphNode node,
					     const CUgraphNodeParams *original,
					     const CUgraphNodeParams *recaptured,
					     CUgraphRecaptureStatus status);
typedef void (*CUasyncCallback)(struct CUasyncNotificationInfo_st *info, void *data,
				CUasyncCallbackHandle handle);
typedef void (*CUlogsCallback)(void *data, CUlogLevel level, char *message, size_t length);
typedef void (*CUcoredumpStatusCallback)(void *data, int pid, CUdevice device);

/* Structures that nobody here looks into */

typedef struct CUdevResource_st CUdevResource;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUmulticastObjectProp_st CUmulticastObjectProp;
typedef struct CUlogicalEndpointProp_struct CUlogicalEndpointProp;
typedef struct CUarrayMapInfo_st CUarrayMapInfo_v1;
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
typedef struct CUtensorMap_st CUtensorMap;
typedef struct CUcliqueInfo_st CUcliqueInfo;
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS_st CU_DEV_SM_RESOURCE_GROUP_PARAMS;
typedef struct CUDA_RESOURCE_DESC_st CUDA_RESOURCE_DESC_v1;
typedef struct CUDA_RESOURCE_VIEW_DESC_st CUDA_RESOURCE_VIEW_DESC_v1;
typedef struct CUDA_TEXTURE_DESC_st CUDA_TEXTURE_DESC_v1;
typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1;
typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1;
typedef struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_v1;
typedef struct CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_v1;
typedef struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1;
typedef struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1;
typedef struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_st CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1;
typedef struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_st CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1;
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st CUDA_FABRIC_COPY_BATCH_OP_v1;

/* Devices and sharing between processes */

typedef struct CUuuid_st {
	unsigned char bytes[16];
} CUuuid;

typedef struct CUipcMemHandle_st {
	char opaque[64];
} CUipcMemHandle_v1;

typedef struct CUipcEventHandle_st {
	char opaque[64];
} CUipcEventHandle_v1;

typedef struct CUdevprop_st {
	int max_threads_per_block;
	int max_threads_dim[3];
	int max_grid_size[3];
	int shared_memory_per_block;
	int constant_memory;
	int warp_size;
	int max_pitch;
	int registers_per_block;
	int clock_khz;
	int texture_alignment;
} CUdevprop_v1;

/* Checkpoints of a process; what is reserved must be 0 */

enum { /* CUprocessState */
	CU_PROCESS_STATE_RUNNING = 0,
	CU_PROCESS_STATE_LOCKED = 1,
	CU_PROCESS_STATE_CHECKPOINTED = 2,
	CU_PROCESS_STATE_FAILED = 3
};

typedef struct CUcheckpointLockArgs_st {
	unsigned int timeout_ms; /* 0: none */
	unsigned int reserved0;
	cuuint64_t reserved1[7];
} CUcheckpointLockArgs;

typedef struct CUcheckpointCheckpointArgs_st {
	cuuint64_t reserved[8];
} CUcheckpointCheckpointArgs;

typedef struct CUcheckpointGpuPair_st {
	CUuuid old_uuid;
	CUuuid new_uuid;
} CUcheckpointGpuPair;

typedef struct CUcheckpointRestoreArgs_st {
	CUcheckpointGpuPair *gpu_pairs; /* onto which other GPUs */
	unsigned int gpu_pairs_count;
	char reserved[52 - sizeof(CUcheckpointGpuPair *)];
	cuuint64_t reserved1;
} CUcheckpointRestoreArgs;

typedef struct CUcheckpointUnlockArgs_st {
	cuuint64_t reserved[8];
} CUcheckpointUnlockArgs;

/* Memory */

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id; /* ordinal of the device, or number of the NUMA node */
} CUmemLocation_v1;
typedef CUmemLocation_v1 CUmemLocation;

typedef struct CUmemAllocationProp_st {
	CUmemAllocationType type;
	/* that the allocation may be exported as; a bit mask */
	CUmemAllocationHandleType handle_types;
	CUmemLocation location;
	void *win32_metadata;
	struct {
		unsigned char compression;
		unsigned char rdma_capable;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
} CUmemAllocationProp_v1;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc_v1;

typedef struct CUmemPoolProps_st {
	CUmemAllocationType type;
	CUmemAllocationHandleType handle_types;
	CUmemLocation location;
	void *win32_attributes;
	size_t max_bytes; /* 0: no limit of its own */
	unsigned short usage;
	unsigned char rdma_capable;
	unsigned char reserved[53];
} CUmemPoolProps_v1;

typedef struct CUmemPoolPtrExportData_st {
	unsigned char opaque[64];
} CUmemPoolPtrExportData_v1;

/* Arrays */

typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st {
	unsigned int width;
	unsigned int height;
	CUarray_format format;
	unsigned int channels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY_DESCRIPTOR_st {
	size_t width;
	size_t height;
	CUarray_format format;
	unsigned int channels;
} CUDA_ARRAY_DESCRIPTOR_v2;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
	unsigned int width;
	unsigned int height;
	unsigned int depth;
	CUarray_format format;
	unsigned int channels;
	unsigned int flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
	size_t width;
	size_t height;
	size_t depth;
	CUarray_format format;
	unsigned int channels;
	unsigned int flags;
} CUDA_ARRAY3D_DESCRIPTOR_v2;

typedef struct CUDA_ARRAY_SPARSE_PROPERTIES_st CUDA_ARRAY_SPARSE_PROPERTIES_v1;

typedef struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st {
	size_t bytes;
	size_t alignment;
	unsigned int reserved[4];
} CUDA_ARRAY_MEMORY_REQUIREMENTS_v1;

/* Copies */

typedef struct CUDA_MEMCPY2D_v1_st {
	unsigned int src_x_bytes;
	unsigned int src_y;
	CUmemorytype src_type;
	const void *src_host;
	CUdeviceptr_v1 src_device;
	CUarray src_array;
	unsigned int src_pitch;
	unsigned int dst_x_bytes;
	unsigned int dst_y;
	CUmemorytype dst_type;
	void *dst_host;
	CUdeviceptr_v1 dst_device;
	CUarray dst_array;
	unsigned int dst_pitch;
	unsigned int width_bytes;
	unsigned int height;
} CUDA_MEMCPY2D_v1;

typedef struct CUDA_MEMCPY2D_st {
	size_t src_x_bytes;
	size_t src_y;
	CUmemorytype src_type;
	const void *src_host;
	CUdeviceptr src_device;
	CUarray src_array;
	size_t src_pitch;
	size_t dst_x_bytes;
	size_t dst_y;
	CUmemorytype dst_type;
	void *dst_host;
	CUdeviceptr dst_device;
	CUarray dst_array;
	size_t dst_pitch;
	size_t width_bytes;
	size_t height;
} CUDA_MEMCPY2D_v2;

typedef struct CUDA_MEMCPY3D_v1_st {
	unsigned int src_x_bytes;
	unsigned int src_y;
	unsigned int src_z;
	unsigned int src_lod;
	CUmemorytype src_type;
	const void *src_host;
	CUdeviceptr_v1 src_device;
	CUarray src_array;
	void *reserved0;
	unsigned int src_pitch;
	unsigned int src_height;
	unsigned int dst_x_bytes;
	unsigned int dst_y;
	unsigned int dst_z;
	unsigned int dst_lod;
	CUmemorytype dst_type;
	void *dst_host;
	CUdeviceptr_v1 dst_device;
	CUarray dst_array;
	void *reserved1;
	unsigned int dst_pitch;
	unsigned int dst_height;
	unsigned int width_bytes;
	unsigned int height;
	unsigned int depth;
} CUDA_MEMCPY3D_v1;

/*
 * The peer form has contexts where the plain one has reserved words; otherwise they are the same.
 */
typedef struct CUDA_MEMCPY3D_st {
	size_t src_x_bytes;
	size_t src_y;
	size_t src_z;
	size_t src_lod;
	CUmemorytype src_type;
	const void *src_host;
	CUdeviceptr src_device;
	CUarray src_array;
	CUcontext src_context;
	size_t src_pitch;
	size_t src_height;
	size_t dst_x_bytes;
	size_t dst_y;
	size_t dst_z;
	size_t dst_lod;
	CUmemorytype dst_type;
	void *dst_host;
	CUdeviceptr dst_device;
	CUarray dst_array;
	CUcontext dst_context;
	size_t dst_pitch;
	size_t dst_height;
	size_t width_bytes;
	size_t height;
	size_t depth;
} CUDA_MEMCPY3D_v2;
typedef CUDA_MEMCPY3D_v2 CUDA_MEMCPY3D_PEER_v1;

typedef struct CUmemcpyAttributes_st {
	CUmemcpySrcAccessOrder order;
	CUmemLocation src_hint;
	CUmemLocation dst_hint;
	unsigned int flags;
} CUmemcpyAttributes_v1;

typedef struct CUmemcpy3DOperand_st {
	CUmemcpy3DOperandType type;
	union {
		struct {
			CUdeviceptr ptr;
			size_t row_elements; /* 0: as wide as the copy */
			size_t layer_rows;   /* 0: as high as the copy */
			CUmemLocation hint;
		} pointer;
		struct {
			CUarray array;
			size_t x, y, z;
		} array;
	} u;
} CUmemcpy3DOperand_v1;

typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
	CUmemcpy3DOperand_v1 src;
	CUmemcpy3DOperand_v1 dst;
	size_t width, height, depth;
	CUmemcpySrcAccessOrder order;
	unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP_v1;

/* Operations on a word of memory, in a stream */

typedef union CUstreamBatchMemOpParams_union {
	CUstreamBatchMemOpType operation;
	struct { /* waits and writes; 32-bit ones use the low half of `value` */
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		cuuint64_t value;
		unsigned int flags;
		CUdeviceptr alias;
	} word;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams_v1;
typedef CUstreamBatchMemOpParams_v1 CUstreamBatchMemOpParams;

/* Launches */

typedef union CUlaunchAttributeValue_union {
	char pad[64];
	int cooperative;
	int priority;
	unsigned int cluster[3];
	struct {
		CUevent event;
		int flags;
		int trigger_at_block_start;
	} event;
} CUlaunchAttributeValue;
typedef CUlaunchAttributeValue CUstreamAttrValue_v1;
typedef CUlaunchAttributeValue CUkernelNodeAttrValue_v1;

typedef struct CUlaunchAttribute_st {
	CUlaunchAttributeID id;
	char pad[4];
	CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	CUstream stream;
	CUlaunchAttribute *attributes;
	unsigned int attribute_count;
} CUlaunchConfig;

typedef struct CUDA_LAUNCH_PARAMS_st {
	CUfunction function;
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	CUstream stream;
	void **params;
} CUDA_LAUNCH_PARAMS_v1;

/* Graphs */

typedef struct CUgraphEdgeData_st {
	unsigned char from_port;
	unsigned char to_port;
	unsigned char type;
	unsigned char reserved[5];
} CUgraphEdgeData;

typedef struct CUDA_KERNEL_NODE_PARAMS_st {
	CUfunction function;
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	void **params;
	void **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;

typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
	CUfunction function;
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	void **params;
	void **extra;
	CUkernel kernel;
	CUcontext context;
} CUDA_KERNEL_NODE_PARAMS_v2;

typedef struct CUDA_MEMSET_NODE_PARAMS_st {
	CUdeviceptr dst;
	size_t pitch;
	unsigned int value;
	unsigned int element_bytes;
	size_t width; /* in elements */
	size_t height;
} CUDA_MEMSET_NODE_PARAMS_v1;

typedef struct CUDA_HOST_NODE_PARAMS_st {
	CUhostFn function;
	void *data;
} CUDA_HOST_NODE_PARAMS_v1;

typedef struct CUDA_MEM_ALLOC_NODE_PARAMS_v1_st {
	CUmemPoolProps_v1 pool;
	const CUmemAccessDesc_v1 *access;
	size_t access_count;
	size_t bytes;
	CUdeviceptr ptr; /* answered */
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st {
	CUcontext context;
	unsigned int count;
	CUstreamBatchMemOpParams *operations;
	unsigned int flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS;

struct CUgraphNodeParams_st {
	CUgraphNodeType type;
	int reserved0[3];
	union {
		long long reserved[29];
		CUDA_KERNEL_NODE_PARAMS_v2 kernel;
		struct {
			int flags;
			int reserved;
			CUcontext context;
			CUDA_MEMCPY3D_v2 copy;
		} memcpy;
		struct {
			CUDA_MEMSET_NODE_PARAMS_v1 set;
			CUcontext context;
		} memset;
		CUDA_HOST_NODE_PARAMS_v1 host;
		struct {
			CUgraph graph;
			CUgraphChildGraphNodeOwnership ownership;
		} graph;
		struct {
			CUevent event;
		} event; /* record and wait */
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		struct {
			CUdeviceptr ptr;
		} free;
		CUDA_BATCH_MEM_OP_NODE_PARAMS mem_op;
	} u;
	long long reserved1;
};

typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
	cuuint64_t flags;
	CUstream upload_stream;
	CUgraphNode error_node;		 /* answered */
	CUgraphInstantiateResult result; /* answered */
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct CUgraphExecUpdateResultInfo_st {
	CUgraphExecUpdateResult result;
	CUgraphNode error_node;
	CUgraphNode error_from_node;
} CUgraphExecUpdateResultInfo;

/* Graphics: what the driver shares with OpenGL, EGL and VDPAU, by their names */

typedef unsigned int GLuint;
typedef unsigned int GLenum;
typedef int32_t EGLint;
typedef void *EGLImageKHR;
typedef void *EGLStreamKHR;
typedef void *EGLSyncKHR;
typedef uint32_t VdpDevice;
typedef uint32_t VdpVideoSurface;
typedef uint32_t VdpOutputSurface;
typedef int VdpGetProcAddress(VdpDevice device, uint32_t function, void **address);

typedef struct CUeglFrame_st {
	void *planes[3]; /* arrays or addresses */
	unsigned int width;
	unsigned int height;
	unsigned int depth;
	unsigned int pitch;
	unsigned int plane_count;
	unsigned int channels;
	int frame_type;
	int color_format;
	CUarray_format format;
} CUeglFrame_v1;

#define NVS_ABI_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "the layout of " #type)
NVS_ABI_SIZE(CUuuid, 16);
NVS_ABI_SIZE(CUipcMemHandle_v1, 64);
NVS_ABI_SIZE(CUdevprop_v1, 56);
NVS_ABI_SIZE(CUmemLocation_v1, 8);
NVS_ABI_SIZE(CUmemAllocationProp_v1, 32);
NVS_ABI_SIZE(CUmemAccessDesc_v1, 12);
NVS_ABI_SIZE(CUmemPoolProps_v1, 88);
NVS_ABI_SIZE(CUDA_ARRAY_DESCRIPTOR_v2, 24);
NVS_ABI_SIZE(CUDA_ARRAY3D_DESCRIPTOR_v2, 40);
NVS_ABI_SIZE(CUDA_MEMCPY2D_v2, 128);
NVS_ABI_SIZE(CUDA_MEMCPY3D_v2, 200);
NVS_ABI_SIZE(CUmemcpyAttributes_v1, 24);
NVS_ABI_SIZE(CUmemcpy3DOperand_v1, 40);
NVS_ABI_SIZE(CUDA_MEMCPY3D_BATCH_OP_v1, 112);
NVS_ABI_SIZE(CUstreamBatchMemOpParams_v1, 48);
NVS_ABI_SIZE(CUlaunchAttribute, 72);
NVS_ABI_SIZE(CUlaunchConfig, 56);
NVS_ABI_SIZE(CUDA_LAUNCH_PARAMS_v1, 56);
NVS_ABI_SIZE(CUDA_KERNEL_NODE_PARAMS_v1, 56);
NVS_ABI_SIZE(CUDA_KERNEL_NODE_PARAMS_v2, 72);
NVS_ABI_SIZE(CUDA_MEMSET_NODE_PARAMS_v1, 40);
NVS_ABI_SIZE(CUDA_MEM_ALLOC_NODE_PARAMS, 120);
NVS_ABI_SIZE(CUgraphNodeParams, 256);
NVS_ABI_SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS, 32);
NVS_ABI_SIZE(CUeglFrame_v1, 64);
#undef NVS_ABI_SIZE

#endif
