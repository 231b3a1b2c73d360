/*
 * Copyright (c) 2026 The gpufleet.nvidia contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A libnvidia-ml.so.1 that answers from a text file instead of a driver: the calls that this collection, nvidia-ctk and
 * pynvml make, with NVML's own signatures and error codes. The file ($FAKE_NVML, default /etc/fake-nvml.conf) is read at
 * every nvmlInit, so a test can change the machine while programs run. Its lines:
 *
 *   driver 550.163.01                  user-space version
 *   cuda 12040
 *   gpu NAME|UUID|MINOR|BUSID|MIB|MIG  MIG is on, off or - (the GPU cannot); NVML's index is the order of these lines
 *   mig GPU|UUID|GI|CI                 one MIG device of the GPU with that index
 *   mig GPU|UUID|GI|CI|NAME|PROFILE|SLICES|MIB  the same with a profile of its own: its name, NVML's number of it, its size
 *   pending GPU MIG                    MIG's mode after the next reset, on or off
 *   addressing GPU MODE                0 none, 1 HMM, 2 ATS
 *   fabric GPU STATE STATUS CLIQUE HEALTH CLUSTER  NVML's numbers, and the cluster's UUID as 32 hexadecimal digits
 *   error CALL[@GPU] CODE              this call (for this GPU only) returns that error; CALL without _v2
 *   delay CALL[@GPU] MILLISECONDS      this call takes that long, as calls to a sick GPU do
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 64
#define MAX_MIGS 128
#define MAX_FAULTS 32

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, MISMATCH = 18 };
enum { FABRIC_V2 = 0x2000024, FABRIC_V3 = 0x3000028, ADDRESSING_V1 = 0x1000008 };

typedef int Return;
typedef struct { unsigned char cluster[16]; unsigned status, clique, state, health; } Fabric;
typedef struct device {
    int index, is_mig, parent, profile, slices;
    char name[96], uuid[80], bus[32], mig[8], pending[8];
    unsigned minor, gi, ci, addressing;
    unsigned long long mib;
    Fabric fabric;
} *Device;
/* The version comes first from the second version on; the third has a summary of the health at its end. */
typedef struct { unsigned char cluster[16]; unsigned status, clique; unsigned char state; } FabricInfo;
typedef struct { unsigned version; unsigned char cluster[16]; unsigned status, clique; unsigned char state; unsigned health; unsigned char summary; } FabricInfoV;
typedef struct { unsigned version, value; } Addressing;
typedef struct { char call[64]; int gpu, value, is_delay; } Fault;
typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, deviceId, subSystemId; char busId[32]; } PciInfo;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned multiprocessors, copyEngines, decoders, encoders, jpegs, ofas, gpuInstanceSlices, computeInstanceSlices; unsigned long long memoryMiB; } Attributes;

typedef struct { Device device; unsigned id, profileId, start, size; } GpuInstanceInfo;
typedef struct { Device device, gpuInstance; unsigned id, profileId, start, size; } ComputeInstanceInfo;
typedef struct { unsigned id, p2p, slices, instances, multiprocessors, copyEngines, decoders, encoders, jpegs, ofas; unsigned long long memoryMiB; } GpuProfile;
typedef struct { unsigned id, slices, instances, multiprocessors, copyEngines, decoders, encoders, jpegs, ofas; } ComputeProfile;

enum { ONE_SLICE = 0, ONE_SLICE_ID = 19 }; /* the profile of a MIG device that names none is 1g; drivers give its identifier as 19 */

static struct device gpus[MAX_GPUS], migs[MAX_MIGS];
static Fault faults[MAX_FAULTS];
static int gpu_count, mig_count, fault_count, users, cuda;
static char driver[80];

static void read_line(const char *line)
{
    struct device *gpu = &gpus[gpu_count], *mig = &migs[mig_count];
    Fault *fault = &faults[fault_count];
    char kind[8], where[80], profile[64], cluster[40], *at;
    Fabric fabric;
    int value, which, fields;

    if (sscanf(line, "driver %79s", driver) == 1 || sscanf(line, "cuda %d", &cuda) == 1)
        return;
    memset(gpu, 0, sizeof *gpu);
    if (gpu_count < MAX_GPUS - 1 &&
        sscanf(line, "gpu %95[^|]|%79[^|]|%u|%31[^|]|%llu|%7s", gpu->name, gpu->uuid, &gpu->minor, gpu->bus, &gpu->mib, gpu->mig) == 6) {
        gpu->index = gpu->parent = gpu_count++;
        return;
    }
    memset(mig, 0, sizeof *mig);
    fields = sscanf(line, "mig %d|%79[^|]|%u|%u|%63[^|]|%d|%d|%llu", &mig->parent, mig->uuid, &mig->gi, &mig->ci, profile,
                    &mig->profile, &mig->slices, &mig->mib);
    if (mig_count < MAX_MIGS - 1 && (fields == 4 || fields == 8) && mig->parent < gpu_count) {
        mig->is_mig = 1;
        if (fields == 4) {
            mig->slices = 1;
            mig->mib = gpus[mig->parent].mib / 8;
            snprintf(profile, sizeof profile, "1g.%llugb", (mig->mib + 1023) / 1024);
        }
        snprintf(mig->name, sizeof mig->name, "%.60s MIG %.29s", gpus[mig->parent].name, profile);
        mig_count++;
        return;
    }
    if (sscanf(line, "pending %d %7s", &which, where) == 2 && which < gpu_count) {
        snprintf(gpus[which].pending, sizeof gpus[which].pending, "%.7s", where);
        return;
    }
    if (sscanf(line, "addressing %d %d", &which, &value) == 2 && which < gpu_count) {
        gpus[which].addressing = (unsigned)value;
        return;
    }
    if (sscanf(line, "fabric %d %u %u %u %u %39s", &which, &fabric.state, &fabric.status, &fabric.clique, &fabric.health, cluster) == 6 &&
        which < gpu_count) {
        for (int i = 0; i < 16; i++)
            sscanf(cluster + 2 * i, "%2hhx", &fabric.cluster[i]);
        gpus[which].fabric = fabric;
        return;
    }
    if (fault_count < MAX_FAULTS - 1 && sscanf(line, "%7s %79s %d", kind, where, &value) == 3 && (!strcmp(kind, "error") || !strcmp(kind, "delay"))) {
        at = strchr(where, '@');
        fault->gpu = at ? atoi(at + 1) : -1;
        if (at)
            *at = 0;
        snprintf(fault->call, sizeof fault->call, "%.63s", where);
        fault->value = value;
        fault->is_delay = kind[0] == 'd';
        fault_count++;
    }
}

static Return read_inventory(void)
{
    const char *path = getenv("FAKE_NVML");
    FILE *file = fopen(path ? path : "/etc/fake-nvml.conf", "r");
    char line[512];

    if (!file)
        return DRIVER_NOT_LOADED;
    gpu_count = mig_count = fault_count = 0;
    while (fgets(line, sizeof line, file))
        read_line(line);
    fclose(file);
    return SUCCESS;
}

/* Every call passes here: it takes the time and returns the error that the inventory asks for. */
static Return enter(const char *call, int gpu)
{
    Return result = SUCCESS;
    for (Fault *fault = faults; fault < faults + fault_count; fault++) {
        if (strcmp(fault->call, call) || (fault->gpu != -1 && fault->gpu != gpu))
            continue;
        if (fault->is_delay) {
            struct timespec pause = { fault->value / 1000, fault->value % 1000 * 1000000L };
            nanosleep(&pause, NULL);
        } else {
            result = fault->value;
        }
    }
    return result;
}

static Return check(const char *call, Device device)
{
    if (!users)
        return UNINITIALIZED;
    return device ? enter(call, device->parent) : INVALID_ARGUMENT;
}

static Return check_system(const char *call)
{
    return users ? enter(call, -1) : UNINITIALIZED;
}

static Return put(Return result, char *buffer, unsigned length, const char *text)
{
    if (result)
        return result;
    if (strlen(text) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

#define TRY(expression) do { Return r_ = (expression); if (r_) return r_; } while (0)
#define SET(check_, target, value) do { TRY(check_); *(target) = (value); return SUCCESS; } while (0)

API Return nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    TRY(read_inventory());
#ifdef OWN_VERSION /* a package's: the file has the version of the loaded module, and is absent where none is loaded */
    if (strcmp(driver, OWN_VERSION))
        return MISMATCH;
#endif
    TRY(enter("nvmlInit", -1));
    users++;
    return SUCCESS;
}
API Return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API Return nvmlInit(void) { return nvmlInitWithFlags(0); }
API Return nvmlShutdown(void)
{
    if (!users)
        return UNINITIALIZED;
    users--;
    return SUCCESS;
}

API const char *nvmlErrorString(Return code)
{
    switch (code) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 12: return "Shared Library Not Found";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 16: return "GPU requires restart";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

API Return nvmlSystemGetDriverVersion(char *b, unsigned n) { return put(check_system("nvmlSystemGetDriverVersion"), b, n, driver); }
API Return nvmlSystemGetNVMLVersion(char *b, unsigned n)
{
    char text[96];
    snprintf(text, sizeof text, "%d.%s", cuda / 1000, driver);
    return put(check_system("nvmlSystemGetNVMLVersion"), b, n, text);
}
API Return nvmlSystemGetCudaDriverVersion_v2(int *v) { SET(check_system("nvmlSystemGetCudaDriverVersion"), v, cuda); }
API Return nvmlSystemGetCudaDriverVersion(int *v) { return nvmlSystemGetCudaDriverVersion_v2(v); }

API Return nvmlDeviceGetCount_v2(unsigned *n) { SET(check_system("nvmlDeviceGetCount"), n, (unsigned)gpu_count); }
API Return nvmlDeviceGetCount(unsigned *n) { return nvmlDeviceGetCount_v2(n); }
API Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device)
{
    TRY(check_system(""));
    if (index >= (unsigned)gpu_count)
        return INVALID_ARGUMENT;
    SET(enter("nvmlDeviceGetHandleByIndex", (int)index), device, &gpus[index]);
}
API Return nvmlDeviceGetHandleByIndex(unsigned index, Device *device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }
API Return nvmlDeviceGetHandleByUUID(const char *uuid, Device *device)
{
    TRY(check_system("nvmlDeviceGetHandleByUUID"));
    for (int i = 0; i < gpu_count; i++)
        if (!strcmp(gpus[i].uuid, uuid))
            SET(SUCCESS, device, &gpus[i]);
    for (int i = 0; i < mig_count; i++)
        if (!strcmp(migs[i].uuid, uuid))
            SET(SUCCESS, device, &migs[i]);
    return NOT_FOUND;
}
API Return nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Device *device)
{
    TRY(check_system("nvmlDeviceGetHandleByPciBusId"));
    for (int i = 0; i < gpu_count; i++)
        if (!strcasecmp(gpus[i].bus, bus) || !strcasecmp(gpus[i].bus + 4, bus))
            SET(SUCCESS, device, &gpus[i]);
    return NOT_FOUND;
}
API Return nvmlDeviceGetHandleByPciBusId(const char *bus, Device *device) { return nvmlDeviceGetHandleByPciBusId_v2(bus, device); }

API Return nvmlDeviceGetName(Device d, char *b, unsigned n) { return put(check("nvmlDeviceGetName", d), b, n, d ? d->name : ""); }
API Return nvmlDeviceGetUUID(Device d, char *b, unsigned n) { return put(check("nvmlDeviceGetUUID", d), b, n, d ? d->uuid : ""); }
API Return nvmlDeviceGetSerial(Device d, char *b, unsigned n) { return put(check("nvmlDeviceGetSerial", d), b, n, "1320000000000"); }
API Return nvmlDeviceGetIndex(Device d, unsigned *v) { SET(check("nvmlDeviceGetIndex", d), v, (unsigned)d->index); }
API Return nvmlDeviceGetMinorNumber(Device d, unsigned *v) { SET(check("nvmlDeviceGetMinorNumber", d), v, d->minor); }
API Return nvmlDeviceGetBrand(Device d, unsigned *v) { SET(check("nvmlDeviceGetBrand", d), v, 0); }
API Return nvmlDeviceGetArchitecture(Device d, unsigned *v) { SET(check("nvmlDeviceGetArchitecture", d), v, 9); }
API Return nvmlDeviceGetMemoryInfo(Device d, Memory *m)
{
    TRY(check("nvmlDeviceGetMemoryInfo", d));
    m->total = m->free = d->mib << 20;
    m->used = 0;
    return SUCCESS;
}
API Return nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor)
{
    TRY(check("nvmlDeviceGetCudaComputeCapability", d));
    *major = 9;
    *minor = 0;
    return SUCCESS;
}
API Return nvmlDeviceGetPciInfo_v3(Device d, PciInfo *p)
{
    TRY(check("nvmlDeviceGetPciInfo", d));
    memset(p, 0, sizeof *p);
    strcpy(p->busId, d->bus);
    sscanf(d->bus, "%x:%x:%x", &p->domain, &p->bus, &p->device);
    snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
    p->deviceId = 0x233010de;
    return SUCCESS;
}
API Return nvmlDeviceGetPciInfo_v2(Device d, PciInfo *p) { return nvmlDeviceGetPciInfo_v3(d, p); }
API Return nvmlDeviceGetPciInfo(Device d, PciInfo *p) { return nvmlDeviceGetPciInfo_v3(d, p); }

API Return nvmlDeviceGetMigMode(Device d, unsigned *current, unsigned *pending)
{
    TRY(check("nvmlDeviceGetMigMode", d));
    if (d->is_mig || d->mig[0] == '-')
        return NOT_SUPPORTED;
    *current = !strcmp(d->mig, "on");
    *pending = d->pending[0] ? !strcmp(d->pending, "on") : *current;
    return SUCCESS;
}
API Return nvmlDeviceGetAddressingMode(Device d, Addressing *a)
{
    TRY(check("nvmlDeviceGetAddressingMode", d));
    if (a->version != ADDRESSING_V1)
        return INVALID_ARGUMENT;
    SET(SUCCESS, &a->value, d->addressing);
}
API Return nvmlDeviceGetGpuFabricInfo(Device d, FabricInfo *info)
{
    TRY(check("nvmlDeviceGetGpuFabricInfo", d));
    memset(info, 0, sizeof *info);
    memcpy(info->cluster, d->fabric.cluster, sizeof info->cluster);
    info->status = d->fabric.status;
    info->clique = d->fabric.clique;
    info->state = (unsigned char)d->fabric.state;
    return SUCCESS;
}
/* Of the summary of a third version only "not supported" is told: it follows from the mask, which is told whole. */
API Return nvmlDeviceGetGpuFabricInfoV(Device d, FabricInfoV *info)
{
    unsigned version = info->version;

    TRY(check("nvmlDeviceGetGpuFabricInfo", d));
    if (version != FABRIC_V2 && version != FABRIC_V3)
        return INVALID_ARGUMENT;
    memcpy(info->cluster, d->fabric.cluster, sizeof info->cluster);
    info->status = d->fabric.status;
    info->clique = d->fabric.clique;
    info->state = (unsigned char)d->fabric.state;
    info->health = d->fabric.health;
    if (version == FABRIC_V3)
        info->summary = 0;
    return SUCCESS;
}
API Return nvmlDeviceGetMaxMigDeviceCount(Device d, unsigned *v) { SET(check("nvmlDeviceGetMaxMigDeviceCount", d), v, d->mig[0] == '-' ? 0 : 7); }
API Return nvmlDeviceGetMigDeviceHandleByIndex(Device d, unsigned index, Device *out)
{
    TRY(check("nvmlDeviceGetMigDeviceHandleByIndex", d));
    for (int i = 0; i < mig_count; i++)
        if (migs[i].parent == d->index && index-- == 0)
            SET(SUCCESS, out, &migs[i]);
    return NOT_FOUND;
}
API Return nvmlDeviceIsMigDeviceHandle(Device d, unsigned *v) { SET(check("nvmlDeviceIsMigDeviceHandle", d), v, (unsigned)d->is_mig); }
API Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device d, Device *out)
{
    TRY(check("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", d));
    if (!d->is_mig)
        return INVALID_ARGUMENT;
    *out = &gpus[d->parent];
    return SUCCESS;
}
API Return nvmlDeviceGetGpuInstanceId(Device d, unsigned *v) { SET(check("nvmlDeviceGetGpuInstanceId", d), v, d->gi); }
API Return nvmlDeviceGetComputeInstanceId(Device d, unsigned *v) { SET(check("nvmlDeviceGetComputeInstanceId", d), v, d->ci); }
API Return nvmlDeviceGetAttributes_v2(Device d, Attributes *a)
{
    TRY(check("nvmlDeviceGetAttributes", d));
    if (!d->is_mig)
        return INVALID_ARGUMENT;
    memset(a, 0, sizeof *a);
    a->gpuInstanceSlices = a->computeInstanceSlices = (unsigned)d->slices;
    a->memoryMiB = d->mib;
    return SUCCESS;
}

/* One handle stands for a MIG device and its compute instance; that of the first in a GPU instance stands for the GPU instance, too. */
API Return nvmlDeviceGetGpuInstanceById(Device d, unsigned id, Device *out)
{
    TRY(check("nvmlDeviceGetGpuInstanceById", d));
    for (int i = 0; i < mig_count; i++)
        if (migs[i].parent == d->index && migs[i].gi == id)
            SET(SUCCESS, out, &migs[i]);
    return NOT_FOUND;
}
API Return nvmlGpuInstanceGetComputeInstanceById(Device gi, unsigned id, Device *out)
{
    TRY(check("nvmlGpuInstanceGetComputeInstanceById", gi));
    for (int i = 0; i < mig_count; i++)
        if (migs[i].parent == gi->parent && migs[i].gi == gi->gi && migs[i].ci == id)
            SET(SUCCESS, out, &migs[i]);
    return NOT_FOUND;
}
API Return nvmlGpuInstanceGetInfo(Device gi, GpuInstanceInfo *info)
{
    TRY(check("nvmlGpuInstanceGetInfo", gi));
    *info = (GpuInstanceInfo){ &gpus[gi->parent], gi->gi, ONE_SLICE_ID + (unsigned)gi->profile, gi->gi, (unsigned)gi->slices };
    return SUCCESS;
}
API Return nvmlComputeInstanceGetInfo_v2(Device ci, ComputeInstanceInfo *info)
{
    TRY(check("nvmlComputeInstanceGetInfo", ci));
    *info = (ComputeInstanceInfo){ &gpus[ci->parent], ci, ci->ci, ONE_SLICE, 0, 1 };
    return SUCCESS;
}
API Return nvmlDeviceGetGpuInstanceProfileInfo(Device d, unsigned profile, GpuProfile *info)
{
    TRY(check("nvmlDeviceGetGpuInstanceProfileInfo", d));
    if (d->mig[0] == '-')
        return NOT_SUPPORTED;
    for (int i = 0; i < mig_count; i++)
        if (migs[i].parent == d->index && (unsigned)migs[i].profile == profile) {
            *info = (GpuProfile){ .id = ONE_SLICE_ID + profile, .slices = (unsigned)migs[i].slices, .instances = 7, .memoryMiB = migs[i].mib };
            return SUCCESS;
        }
    if (profile != ONE_SLICE)
        return NOT_SUPPORTED;
    *info = (GpuProfile){ .id = ONE_SLICE_ID, .slices = 1, .instances = 7, .memoryMiB = d->mib / 8 };
    return SUCCESS;
}
API Return nvmlGpuInstanceGetComputeInstanceProfileInfo(Device gi, unsigned profile, unsigned engines, ComputeProfile *info)
{
    TRY(check("nvmlGpuInstanceGetComputeInstanceProfileInfo", gi));
    if (profile != ONE_SLICE || engines)
        return NOT_SUPPORTED;
    *info = (ComputeProfile){ .id = ONE_SLICE, .slices = 1, .instances = 1 };
    return SUCCESS;
}
