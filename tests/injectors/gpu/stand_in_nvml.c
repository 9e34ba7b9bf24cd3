/* STAND-IN for libnvidia-ml.so.1: as much of NVML as the faults use, with its state on disk.
 *
 * The state is a folder beside the library, `<library>.state/<index>/<key>`, one small file a value, so that it
 * outlives every process, needs no variable to be found, and can be compared byte for byte. What the real
 * library does not offer (a way to read a clock lock back, a way to make an Xid) is not offered to the faults
 * here either, with one exception that carries our name: torch_chaos_stand_in_xid.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
       TOO_SMALL = 7, TIMEOUT = 10, LOST = 15 };
enum { MAX_DEVICES = 8, MAX_PROCESSES = 64 };
enum { REASON_IDLE = 1, EVENT_XID = 8 };

typedef struct { int index; } device_t;
typedef struct { long long seen[MAX_DEVICES]; int watched[MAX_DEVICES]; } event_set_t;
typedef struct { device_t *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process_t;

static device_t devices[MAX_DEVICES];
static int open_sessions;

static void path_of(char *out, size_t size, int index, const char *key) {
    Dl_info info;
    dladdr((void *)path_of, &info);
    snprintf(out, size, "%s.state/%d/%s", info.dli_fname, index, key);
}

static int read_text(int index, const char *key, char *out, size_t size) {
    char path[4096];
    path_of(path, sizeof path, index, key);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t got = fread(out, 1, size - 1, file);
    fclose(file);
    out[got] = 0;
    out[strcspn(out, "\n")] = 0;
    return 1;
}

static long long read_number(int index, const char *key, long long otherwise) {
    char text[64];
    return read_text(index, key, text, sizeof text) ? atoll(text) : otherwise;
}

static int write_number(int index, const char *key, long long value) {
    char path[4096], fresh[4128];
    path_of(path, sizeof path, index, key);
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    FILE *file = fopen(fresh, "we");
    if (!file) return NO_PERMISSION;
    fprintf(file, "%lld\n", value);
    fclose(file);
    return rename(fresh, path) ? NO_PERMISSION : SUCCESS;
}

static int usable(device_t *device) {
    if (!open_sessions) return UNINITIALIZED;
    if (!device) return INVALID;
    return read_number(device->index, "lost", 0) ? LOST : SUCCESS;
}

static int may_set(device_t *device) {
    int problem = usable(device);
    if (problem) return problem;
    return read_number(device->index, "read_only", 0) ? NO_PERMISSION : SUCCESS;
}

#define GET(device, key, out)                                              \
    do {                                                                   \
        int problem = usable(device);                                      \
        if (problem) return problem;                                       \
        long long value = read_number((device)->index, key, -1);           \
        if (value < 0) return NOT_SUPPORTED;                               \
        *(out) = value;                                                    \
        return SUCCESS;                                                    \
    } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; open_sessions++; return SUCCESS; }
int nvmlShutdown(void) { if (!open_sessions) return UNINITIALIZED; open_sessions--; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in NVML"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    snprintf(out, size, "stand-in");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char text[8];
    if (!open_sessions) return UNINITIALIZED;
    for (*count = 0; *count < MAX_DEVICES && read_text(*count, "uuid", text, sizeof text); ++*count) {}
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t **out) {
    unsigned count;
    int problem = nvmlDeviceGetCount_v2(&count);
    if (problem) return problem;
    if (index >= count) return INVALID;
    devices[index].index = index;
    *out = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t **out) {
    char text[128];
    for (unsigned index = 0; nvmlDeviceGetHandleByIndex_v2(index, out) == SUCCESS; index++)
        if (read_text(index, "uuid", text, sizeof text) && !strcmp(text, uuid)) return SUCCESS;
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(device_t *device, char *out, unsigned size) {
    return usable(device) ? usable(device) : read_text(device->index, "uuid", out, size) ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetName(device_t *device, char *out, unsigned size) {
    (void)device;
    snprintf(out, size, "STAND-IN device");
    return SUCCESS;
}

int nvmlDeviceGetIndex(device_t *device, unsigned *out) {
    int problem = usable(device);
    if (!problem) *out = device->index;
    return problem;
}

/* Clocks: a locked device runs at its lock even when idle, and gives no reason for it. */
int nvmlDeviceGetMaxClockInfo(device_t *device, int type, unsigned *out) {
    (void)type;
    GET(device, "max_clock_mhz", out);
}

static int locked(int index) { return read_number(index, "lock_max_mhz", 0) > 0; }

int nvmlDeviceGetClockInfo(device_t *device, int type, unsigned *out) {
    (void)type;
    int problem = usable(device);
    if (problem) return problem;
    int index = device->index;
    long long slowed = read_number(index, "slowed_to_mhz", 0);
    long long clock = read_number(index, read_number(index, "busy", 0) ? "max_clock_mhz" : "idle_clock_mhz", 0);
    if (locked(index)) {
        long long low = read_number(index, "lock_min_mhz", 0), high = read_number(index, "lock_max_mhz", 0);
        clock = clock < low ? low : clock > high ? high : clock;
    }
    *out = slowed && slowed < clock ? slowed : clock;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(device_t *device, unsigned long long *out) {
    int problem = usable(device);
    if (problem) return problem;
    int index = device->index;
    int idle = !locked(index) && !read_number(index, "busy", 0);
    *out = read_number(index, "slow_reasons", 0) | (idle ? REASON_IDLE : 0);
    return SUCCESS;
}

int nvmlDeviceSetGpuLockedClocks(device_t *device, unsigned low, unsigned high) {
    int problem = may_set(device);
    if (problem) return problem;
    if (low > high || high > read_number(device->index, "max_clock_mhz", 0)) return INVALID;
    if (read_number(device->index, "ignores_locks", 0)) return SUCCESS;
    problem = write_number(device->index, "lock_min_mhz", low);
    return problem ? problem : write_number(device->index, "lock_max_mhz", high);
}

int nvmlDeviceResetGpuLockedClocks(device_t *device) {
    int problem = may_set(device);
    if (problem) return problem;
    problem = write_number(device->index, "lock_min_mhz", 0);
    return problem ? problem : write_number(device->index, "lock_max_mhz", 0);
}

int nvmlDeviceGetSupportedMemoryClocks(device_t *device, unsigned *count, unsigned *out) {
    int problem = usable(device);
    if (problem) return problem;
    if (!out) { *count = 1; return TOO_SMALL; }
    out[0] = 2619;
    return SUCCESS;
}

int nvmlDeviceGetSupportedGraphicsClocks(device_t *device, unsigned memory, unsigned *count, unsigned *out) {
    (void)memory;
    int problem = usable(device);
    if (problem) return problem;
    unsigned top = read_number(device->index, "max_clock_mhz", 0), number = 0;
    for (unsigned clock = top; clock >= 210; clock -= 15, number++)
        if (out && number < *count) out[number] = clock;
    int fits = out && *count >= number;
    *count = number;
    return fits ? SUCCESS : TOO_SMALL;
}

/* Power */
int nvmlDeviceGetPowerManagementLimit(device_t *device, unsigned *out) { GET(device, "power_limit_mw", out); }
int nvmlDeviceGetEnforcedPowerLimit(device_t *device, unsigned *out) { GET(device, "power_limit_mw", out); }
int nvmlDeviceGetPowerManagementDefaultLimit(device_t *device, unsigned *out) {
    GET(device, "power_default_mw", out);
}

int nvmlDeviceGetPowerManagementLimitConstraints(device_t *device, unsigned *low, unsigned *high) {
    int problem = usable(device);
    if (problem) return problem;
    *low = read_number(device->index, "power_min_mw", 0);
    *high = read_number(device->index, "power_max_mw", 0);
    return SUCCESS;
}

int nvmlDeviceSetPowerManagementLimit(device_t *device, unsigned limit) {
    int problem = may_set(device);
    if (problem) return problem;
    if (limit < read_number(device->index, "power_min_mw", 0)) return INVALID;
    if (limit > read_number(device->index, "power_max_mw", 0)) return INVALID;
    if (read_number(device->index, "ignores_limits", 0)) return SUCCESS;
    return write_number(device->index, "power_limit_mw", limit);
}

/* What runs there. `processes` (put there by a test) and `contexts` (by the stand-in for CUDA) hold lines
 * "pid bytes"; a process that has ended is not listed, as on the real thing, and what it held is free again. */
static int listed_in(const char *key, int index, process_t *out, int found) {
    char path[4096], proc[64];
    unsigned pid;
    unsigned long long used;
    path_of(path, sizeof path, index, key);
    FILE *file = fopen(path, "re");
    if (!file) return found;
    while (found < MAX_PROCESSES && fscanf(file, "%u %llu", &pid, &used) == 2) {
        snprintf(proc, sizeof proc, "/proc/%u", pid);
        if (access(proc, F_OK) == 0) out[found++] = (process_t){pid, used, 0xffffffff, 0xffffffff};
    }
    fclose(file);
    return found;
}

static int processes_of(int index, process_t *out) {
    return listed_in("contexts", index, out, listed_in("processes", index, out, 0));
}

int nvmlDeviceGetComputeRunningProcesses_v3(device_t *device, unsigned *count, process_t *out) {
    process_t all[MAX_PROCESSES];
    int problem = usable(device);
    if (problem) return problem;
    unsigned found = processes_of(device->index, all);
    int fits = *count >= found;
    *count = found;
    if (!fits) return TOO_SMALL;
    if (found) memcpy(out, all, found * sizeof *all);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device_t *device, memory_t *out) {
    process_t all[MAX_PROCESSES];
    int problem = usable(device);
    if (problem) return problem;
    out->total = read_number(device->index, "memory_bytes", 0);
    out->used = 0;
    for (int number = processes_of(device->index, all); number-- > 0;) out->used += all[number].used;
    out->free = out->total - out->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(device_t *device, utilization_t *out) {
    process_t all[MAX_PROCESSES];
    int problem = usable(device);
    if (problem) return problem;
    int busy = read_number(device->index, "busy", 0) || processes_of(device->index, all);
    *out = (utilization_t){busy ? 100 : 0, 0};
    return SUCCESS;
}

/* Events: `xid` holds "how many so far" and, as `xid_number`, the last one's number. */
int nvmlDeviceGetSupportedEventTypes(device_t *device, unsigned long long *out) {
    *out = EVENT_XID;
    return usable(device);
}

int nvmlEventSetCreate(event_set_t **out) {
    *out = calloc(1, sizeof **out);
    return *out ? SUCCESS : INVALID;
}

int nvmlEventSetFree(event_set_t *set) { free(set); return SUCCESS; }

int nvmlDeviceRegisterEvents(device_t *device, unsigned long long types, event_set_t *set) {
    int problem = usable(device);
    if (problem) return problem;
    if (types & ~(unsigned long long)EVENT_XID) return NOT_SUPPORTED;
    set->watched[device->index] = 1;
    set->seen[device->index] = read_number(device->index, "xid", 0);
    return SUCCESS;
}

int nvmlEventSetWait_v2(event_set_t *set, event_t *out, unsigned timeout_ms) {
    for (unsigned waited = 0;; waited += 2) {
        for (int index = 0; index < MAX_DEVICES; index++) {
            if (!set->watched[index] || read_number(index, "xid", 0) <= set->seen[index]) continue;
            set->seen[index]++;
            *out = (event_t){&devices[index], EVENT_XID, read_number(index, "xid_number", 0), 0, 0};
            return SUCCESS;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        usleep(2000);
    }
}

/* Not NVML: no driver has this. */
int torch_chaos_stand_in_xid(device_t *device, unsigned number) {
    int problem = usable(device);
    if (problem) return problem;
    problem = write_number(device->index, "xid_number", number);
    return problem ? problem : write_number(device->index, "xid", read_number(device->index, "xid", 0) + 1);
}
