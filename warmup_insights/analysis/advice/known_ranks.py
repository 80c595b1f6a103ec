"""Errors between ranks and nodes: texts and what removes them."""

from __future__ import annotations

from dataclasses import replace

from warmup_insights.analysis.advice.change import Way
from warmup_insights.analysis.advice.known_texts import (
    EAGER,
    MEMORY_OF_SHM,
    KnownError,
    rows,
)

_HOST_INTERFACE = Way(
    "VLLM_HOST_IP with the address of each node, NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME "
    "with the interface that the nodes share, ports open between them",
    "none; an address that the others cannot reach is the usual cause",
)
_RAY_ADDRESS = Way(
    "VLLM_HOST_IP on each node with the address that `ray start --node-ip-address` was given "
    "there: a request for `node:` names one that `ray list nodes` must have",
    "none; one value for all nodes is as wrong",
)
_NCCL_LOG = Way(
    "NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET: the last lines before the error name "
    "the call that failed",
    "the log does not hold more than this",
    kind="look",
)

_GAUDI_LINKS = (
    Way(
        "ENABLE_CONSOLE=true LOG_LEVEL_ALL=3: the last lines before the error name the "
        "call that failed; hl-smi for links that are down",
        "the log does not hold more than this",
        kind="look",
    ),
    Way(
        "HCCL_SOCKET_IFNAME with the interface that the nodes share, where there are "
        "several"
    ),
    MEMORY_OF_SHM,
)

ROWS: tuple[KnownError, ...] = (
    *rows(
        "ranks_not_connected",
        (r"^AssertionError: assert result == 0$",
         "A call of NCCL failed, of which this version states nothing",
         (Way("an NCCL as new as the release: VLLM_NCCL_SO_PATH with the libnccl.so.2 of "
              "nvidia-nccl-cu12, where the line `vLLM is using nccl` has an older one than 2.18: "
              "the system's may come first, and captures no graphs", "another environment"),
          Way("the line `NCCL WARN` above the error names the call that failed; without one "
              "NCCL_DEBUG=WARN prints it", "this line does not hold it", kind="look"),
          EAGER)),
        (r"Version mismatch: The cluster was started with",
         "Ray or Python of this node is of another version than that of the cluster",
         (Way("one image for all nodes, or the same Ray and Python on each: the lines below the error "
              "name both sides"),)),
        (r"RayChannelTimeoutError|Timed out waiting for object available to read",
         "A rank did not answer within the time that Ray waits for a step",
         (Way("the lines of each rank before the error: one that failed, or that compiles or "
              "waits for another", "the line itself holds no cause", kind="look"),
          Way("RAY_CGRAPH_get_timeout with more seconds in the environment of every node before "
              "`ray start`, where a step takes so long: what vLLM sets (300) is its own process's",
              "a rank that hangs is found later"))),
        (r"Every node should have a unique IP address",
         "Ray and vLLM know a node by different addresses",
         (_RAY_ADDRESS,)),
        (r"does not allocate any \w{1,10} on the driver node",
         "Ray has no device on the node of the server",
         (Way("the server started on a node of the cluster with a device (`ray status`)"),
          _RAY_ADDRESS)),
        (r"Nodes are not homogeneous|For multi-node data parallel groups, world_size|"
         r"default \(1\) for VLLM_RAY_DP_PACK_STRATEGY=span",
         "Copies of the engine that span nodes do not fit the nodes",
         (Way("nodes with the same number of devices, tensor times pipeline parallel size a "
              "multiple of it, and no --data-parallel-size-local"),
          Way("VLLM_RAY_DP_PACK_STRATEGY=strict with a tensor and pipeline parallel size that fits "
              "on one node", "each device holds more of the weights and of the KV cache"))),
        (r"placement group|placement_group|DP master node .{1,60} is missing or dead|Current node has no GPU|enough resources|"
         r"number of required \w{1,10} exceeds|Not enough total available nodes|"
         r"No (?:nodes with resources|\w{1,10}) found in Ray cluster|can fulfill resource request",
         "Ray has no place for all ranks",
         (Way("`ray status`: all nodes joined, devices free, no dead placement group; tensor "
              "times pipeline parallel size at most the devices of the cluster"),
          Way("end what holds them: an earlier engine keeps its placement group until its "
              "driver ends", "that engine"),
          _RAY_ADDRESS)),
        (r"RayActorError|ActorDiedError|ActorUnavailable|RayTaskError|owner died|NodeDied",
         "A Ray worker died, and its own log holds why",
         (Way("read the worker's .err file in /tmp/ray/session_latest/logs of that node; its host "
              "memory (Ray kills at 95 %)", "the log does not hold the cause", kind="look"),)),
        (r"clients joined|DistStoreError|Timed out (?:after|initializing)|connectFullMesh|"
         r"client socket has timed out|"
         r"(?<!\[Errno 1[01][14]\] )Connection (?:refused|reset)|hostname of the client socket|"
         r"[Uu]nable to resolve(?! tensorizer)|No route to host|(?<!coordination )(?<!reserve the )TCPStore",
         "The ranks did not find one another",
         (_HOST_INTERFACE,)),
        (r"(?:[Ww]atchdog|ollective).{0,200}[Tt]imed? ?out|Timeout\(ms\)",
         "A collective call waited for a rank that did not come",
         (Way("the log of every rank: the one that is behind, or that failed first, is the "
              "cause", "the log does not hold it unless all ranks are in it", kind="look"), _NCCL_LOG,
          Way("NCCL_P2P_DISABLE=1 for one start, on one node, where no rank failed or is behind",
              "slower between the devices; where it helps, ACS or the IOMMU of the host (iommu=pt "
              "as an argument of the kernel) keeps them from one another's memory"))),
        (r"Unable to find address for: (\S{1,60})",
         "Gloo was given a network interface that the process does not have, or that has no address",
         (Way("GLOO_SOCKET_IFNAME with the name of one interface that `ip addr` lists in the container "
              "with an address, or unset, instead of {1}: a list, a `^` or an address, as NCCL takes "
              "them, is no name here"),
          _HOST_INTERFACE)),
        (r"gloo\S{1,80} Timed out waiting",
         "A process waited over Gloo for another that did not come",
         (Way("the log of every rank: the one that is behind, or that failed first, is the "
              "cause", "the log does not hold it unless all ranks are in it", kind="look"),
          _HOST_INTERFACE)),
        (r"SymmetricMemory\w{0,40}::rendezvous|symm_mem.{0,80}rendezvous",
         "The devices cannot share the memory that symmetric all-reduces use",
         (Way.that_sets("slower all-reduces of some sizes", VLLM_ALLREDUCE_USE_SYMM_MEM="0"),)),
        (r"(?i:deep_?ep).{0,80}invalid resource handle",
         "The kernels between the experts (DeepEP) cannot open the memory of another rank",
         (Way("--all2all-backend allgather_reducescatter (VLLM_ALL2ALL_BACKEND in older versions)",
              "slower between the experts"),
          Way("ranks of one node, or a newer vLLM and DeepEP, where the ranks of several nodes "
              "share memory over NVLink", "another image"))),
        (r"(?<!requires )\bNVLS\b(?! multicast mapping)",
         "The switches between the devices (NVSwitch) gave no memory for NVLS",
         (Way.that_sets("slower all-reduces of large tensors", NCCL_NVLS_ENABLE="0"),
          Way("nvidia-fabricmanager of the driver's version, started anew with nothing on the "
              "devices: processes that ended may hold what the switches have",
              "what runs on the devices"))),
        (r"internode::init|\bNVSHMEM|nvshmem|\bibgda\b",
         "The library between the experts of several nodes (NVSHMEM) did not start",
         (Way("the adapters for the container: /dev/infiniband and IPC_LOCK, or --privileged, which "
              "IBGDA needs where the host does not allow it otherwise", "rights of the container"),
          Way("NVSHMEM_DEBUG=INFO: the first lines of it with a status name what failed; "
              "NVSHMEM_HCA_LIST with the adapters", "the log does not hold more than this", kind="look"),
          Way("--all2all-backend allgather_reducescatter, which does without it",
              "slower between the experts"))),
        (r"UCX  ERROR (\w{1,40})?.{1,400}(?:nixl|NIXL)",
         "NIXL could not set up its transport, for what UCX states",
         (Way("UCX_NET_DEVICES with the adapters that work (`ibv_devinfo`, `ucx_info -d`), "
              "without the one that the line names",
              "fewer adapters"),
          Way("/dev/infiniband and IPC_LOCK for the container, where the adapter works on the "
              "host", "rights of the container"),
          Way("UCX_TLS with cuda_ipc, cuda_copy and tcp alone", "slower between nodes"))),
        (r"KeyError: 'UCX'",
         "NIXL has no transport of UCX: its plugin was not found or did not load",
         (Way("NIXL_PLUGIN_DIR with the directory of the plugins of the nixl installed, or a nixl "
              "of one wheel (its own plugins beside it, for the CUDA of torch), not two of them",
              "another environment"),
          Way("NIXL_LOG_LEVEL=DEBUG: it names each plugin that did not load and why",
              "a longer log", kind="look"))),
        (r"nixlBackendError|NIXL_ERR_BACKEND",
         "NIXL could not set up its transport",
         (Way("UCX with support for the devices: `UCX WARN` lines above name transports that are "
              "missing (cuda_ipc, cuda_copy: `ucx_info -d`); nixl of the CUDA of torch brings "
              "such a UCX, unless LD_LIBRARY_PATH names another one first", "another environment"),
          Way("UCX_TLS unset, or with cuda_ipc and cuda_copy in it; UCX_LOG_LEVEL=info for more"))),
        (r"(?:custom_all_reduce\.cuh|cudaIpcGetMemHandle).{0,80}invalid argument",
         "The memory of this engine is mapped in a way that ranks cannot share",
         (Way.that_sets("slower small all-reduces", disable_custom_all_reduce=True),
          Way("PYTORCH_CUDA_ALLOC_CONF (or PYTORCH_ALLOC_CONF) without expandable_segments:True, and "
              "no --enable-sleep-mode: what they map cannot be passed on (cudaIpcGetMemHandle)",
              "more fragments; the engine cannot sleep"))),
        (r"peer access|cudaIpc|custom_all_reduce",
         "The devices cannot read one another's memory",
         (Way.that_sets("slower small all-reduces", disable_custom_all_reduce=True),
          Way.that_sets("slower between the devices", NCCL_P2P_DISABLE="1"))),
        (r"nonSFG is not supported during hpu graph capturing",
         "Collectives are not allowed in HPU graphs without lazy collectives",
         (Way.that_sets("none: tensor parallel graphs need it", PT_HPU_ENABLE_LAZY_COLLECTIVES="true"),)),
        (r"Duplicate GPU detected|ncclInvalidUsage|NCCL error(?: in)?: .{0,200}invalid usage",
         "Two ranks were given one device, or ranks call the library differently",
         (Way("a device for each rank: CUDA_VISIBLE_DEVICES as the process sees it, and "
              "--tensor-parallel-size of at most as many"),)),
        (r"ncclRemoteError|remote process (?:exited|has terminated)",
         "Another rank ended first",
         (Way("the log of the rank that ended first: its error is the cause",
              "the log does not hold it unless all ranks are in it", kind="look"),)),
        (r"ibv initialization failed|matching Habana IB device|hbldv_open_device|ibv_alloc_pd\(\) failed|"
         r"failed to load ibverbs interface",
         "HCL did not open the network ports of a Gaudi: it reaches them through the InfiniBand "
         "driver of the devices, within one host too",
         (Way("the driver complete on the host: habanalabs, habanalabs_cn, habanalabs_en, "
              "habanalabs_ib and ib_uverbs (`lsmod`, `rdma dev`), all of the release of the image; "
              "ib_uverbs may be in linux-modules-extra of the kernel",
              "a restart of what uses its devices"),
          Way("--runtime=habana and HABANA_VISIBLE_DEVICES for the container, with --net=host and "
              "--cap-add=sys_nice: that runtime passes the ports of the devices on",
              "rights of the container"),
          Way("RDMA_CORE_LIB with the folder of libhbl.so, as the image has it: HCL loads it from "
              "there", "an image in which it was not changed"),
          _GAUDI_LINKS[0])),
        (r"(?:[Hh]abana|PT_BRIDGE|PT_HPU|[Ss]ynapse|\bhpu\b).{0,300}?(?:HCCL|[Hh]ccl|\bhcl)",
         "The library between the Gaudi devices failed", _GAUDI_LINKS),
        (r"(?:HCCL|hccl) function error|\bE[IJ]\d{4,5}\b|ERR02\d{3}|Hccl[A-Z]|"
         r"torch_npu.{0,300}?(?:HCCL|hccl)",
         "The library between the Ascend devices failed",
         (Way("`npu-smi info` and `hccn_tool -i N -link -g` of each device: links up, health OK, "
              "no process of an earlier start"),
          Way("HCCL_IF_IP or HCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME of the network that the "
              "ranks share, HCCL_CONNECT_TIMEOUT=1800 where ranks come late", "none; a "
              "start that hangs is found later"),
          Way("~/ascend/log/debug/plog of the rank that failed first",
              "the log does not hold more than the code", kind="look"))),
        (r"start_workers.{0,60}failed to start worker",
         "oneCCL could not start its thread on the core that it chose",
         (Way("CCL_WORKER_AFFINITY with cores that the process may use (`taskset -cp` of it), or "
              "a container with more of them"),
          Way("CCL_LOG_LEVEL=info: the last lines before the error name the call that failed",
              "the log does not hold more than this", kind="look"))),
        (r"zeMemOpenIpcHandle",
         "An Intel device cannot open the memory of another one",
         (Way("CCL_TOPO_P2P_ACCESS=0, where the host has no path between the devices (a virtual machine, "
              "slots without it), or CCL_ENABLE_SYCL_KERNELS=0", "slower between the devices"),
          Way("CCL_ZE_IPC_EXCHANGE=pidfd, with SYS_PTRACE for the container, or sockets: how the ranks "
              "pass memory to one another", "a right of the container"),
          Way("a newer kernel and driver (xe, intel-compute-runtime), with the oneCCL and torch of "
              "one release of vLLM", "another host or image"),
          Way.that_sets("one device; weights of fewer bits may be needed", tensor_parallel_size=1))),
        (r"oneCCL.{0,200}unknown memory type",
         "oneCCL was given memory that it does not know as that of a device or of the host",
         (Way("PYTORCH_ALLOC_CONF without expandable_segments:True, and no --enable-sleep-mode, where "
              "the start has them: memory that is mapped anew is of no such type",
              "more fragments; the engine cannot sleep"),
          Way("torch, oneCCL and the driver as the release of vLLM names them", "another image"))),
        (r"do not support sycl_graph recording",
         "oneCCL cannot record this collective into a SYCL graph",
         (Way.that_sets("no graphs: slower decodes", enforce_eager=True),
          Way("splitting_ops of --compilation-config with the collective, which leaves it outside "
              "of the graphs", "smaller graphs"),
          Way("an oneCCL and torch as new as the release of vLLM names them", "another image"))),
        (r"oneCCL|ProcessGroupXCCL",
         "The library between the Intel devices failed",
         (Way("/dev/dri and /dev/dri/by-path in the container (--device /dev/dri -v "
              "/dev/dri/by-path:/dev/dri/by-path), where files of devices were not opened"),
          MEMORY_OF_SHM,
          Way("CCL_LOG_LEVEL=info: the last lines before the error name the call that failed",
              "the log does not hold more than this", kind="look"))),
        (r"HCCL|hccl[A-Z]\w{0,40}|hcl\w{0,20}",
         "The library between the Gaudi devices failed", _GAUDI_LINKS),
        (r"NCCL WARN .{0,80}\bibv_\w{1,40}|NET/IB.{0,200}(?:[Ff]ailed|[Ee]rror|timed out)",
         "NCCL does not reach another rank through its InfiniBand or RoCE adapter",
         (Way("NCCL_IB_HCA with the adapters that reach one another (`ibv_devinfo`, `ibstat`), and with "
              "RoCE NCCL_IB_GID_INDEX of the address that they share (often 3)"),
          Way("NCCL_IB_DISABLE=1 with NCCL_SOCKET_IFNAME for one start: the ranks exchange over TCP then",
              "much slower between nodes"),
          Way("/dev/infiniband and IPC_LOCK for the container (--ulimit memlock=-1)",
              "rights of the container"))),
        (r"unhandled system error|ncclSystemError",
         "A system call failed in the library between the devices",
         (replace(MEMORY_OF_SHM, suggestion=f"for ranks of one node {MEMORY_OF_SHM.suggestion}"),
          replace(_HOST_INTERFACE, suggestion=f"for those of several {_HOST_INTERFACE.suggestion}"),
          _NCCL_LOG,
          Way("IPC_LOCK for the container, with /dev/infiniband, where nodes use RDMA",
              "a right of the container"))),
        (r"Cuda failure (?:801 )?'operation not supported'",
         "NCCL called something of CUDA that these devices do not have, as virtual ones",
         (Way("NCCL_CUMEM_ENABLE=0, then NCCL_P2P_DISABLE=1 and NCCL_NVLS_ENABLE=0, one at a time: virtual "
              "devices (vGPU), partitions (MIG) and some hosts have none of them",
              "slower between the devices"),
          _NCCL_LOG)),
        (r"unhandled cuda error|UnhandledCudaError",
         "A call of CUDA failed in the library between the devices",
         (_NCCL_LOG,
          Way("a restart of the host after an update of its driver; a driver as new as the CUDA "
              "of NCCL (the lines `cudaDriverVersion` and `NCCL version`)",
              "what runs on its devices"),
          Way("NCCL_NVLS_ENABLE=0 on a host with NVSwitch, where it fails before the weights are "
              "read: NCCL 2.29 ends where earlier ones went on without NVLS",
              "slower all-reduces of large tensors"),
          Way("NCCL_P2P_DISABLE=1, then NCCL_CUMEM_ENABLE=0, one at a time: virtual devices "
              "(vGPU) have neither", "slower; shows which call fails", kind="look"))),
        (r"Distributed package doesn't have (\w{1,10}) built in",
         "The torch that is installed was built without the library between the devices",
         (Way("torch of the release, built with {1} for this device (`python -c 'import torch; "
              "print(torch.__version__, torch.distributed.is_nccl_available())'`): some wheels "
              "for Windows, Jetson and the processor have none", "another image"),)),
        (r"[NR]CCL (?:[Ee]rror|WARN|fail)|ProcessGroup[NH]CCL|DistBackendError|"
         r"\bnccl(?!UniqueId)[A-Z]\w{1,40}|\bhccl\w{1,20}",
         "The library between the devices failed",
         (_NCCL_LOG, MEMORY_OF_SHM,
          Way("NCCL_P2P_DISABLE=1, then NCCL_IB_DISABLE=1, one at a time",
              "slower; shows which path fails", kind="look"))),
        (r"Did not receive response from front-end process",
         "The server's process did not answer the engine in the five minutes it waits",
         (Way("the log of the server's process, and of every other engine: the first error there "
              "is the cause", "the log does not hold it unless they are in it", kind="look"),
          Way("--data-parallel-address and --data-parallel-rpc-port that each node reaches, "
              "where engines run on several"))),
        (r"RPC call to (\w{1,40}) timed out",
         "A worker did not answer in time",
         (Way("the log of every worker: the one that was busy with {1}, or that failed first, "
              "is the cause", "the log does not hold it unless all workers are in it", kind="look"),)),
        (r"Engine iteration timed out",
         "A step of the engine took longer than it may",
         (Way("VLLM_ENGINE_ITERATION_TIMEOUT_S=3600 (60 is the default): a shape that no warm-up "
              "compiled takes minutes", "an engine that hangs is found later",
              {"VLLM_ENGINE_ITERATION_TIMEOUT_S": "3600"}),
          Way("the log of every worker: one that failed or waits for another is the cause "
              "otherwise", "the log does not hold it unless all workers are in it", kind="look"))),
        (r"Orchestrator did not become ready within (\d{1,6})s",
         "The stages of vLLM-Omni were not ready in the time that they have together",
         (Way("--init-timeout of more than {1}, and --stage-init-timeout with more than one stage "
              "takes", "a start that hangs is found later"),
          Way("the log of each stage: where it was busy (downloads, weights, compilation), or "
              "which one failed", "the log does not hold it unless it is in it", kind="look"))),
        (r"Timed out waiting for engine|[Rr]eady_timeout|READY_TIMEOUT|initial message",
         "The engine was not ready in the time that the server waits",
         (Way("VLLM_ENGINE_READY_TIMEOUT_S with more than the start takes (600 is the default)",
              "a start that hangs is found later"),
          Way("the log of the engine's process: where it was busy", "the log does not hold "
              "it unless it is in it", kind="look"))),
    ),
)  # fmt: skip
