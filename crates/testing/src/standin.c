// Stands in for libcuda, libcufile and libnvidia-ml where there is no GPU: two GPUs whose memory is the host's.
//
// It behaves as NVIDIA's headers say, and is unkind where they allow it:
//  * an address of a GPU's memory cannot be used as a pointer;
//  * copies on a stream happen later, on a thread of its own;
//  * a copy on the wrong GPU's stream, in the wrong context or out of bounds is an error.
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t Address;
enum { INVALID = 1, NO_MEMORY = 2, WRONG_CONTEXT = 201, ILLEGAL_ADDRESS = 700, NOT_READY = 600 };
#define DEVICES 2
#define HIDDEN ((Address)1 << 46)
#define MOST 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int contexts[DEVICES];
static _Thread_local int *current;
static struct { Address start; size_t len; int device; } blocks[MOST];
static struct { char *start; size_t len; } pins[MOST];
// Counters and knobs of the tests.
static unsigned long unpinned, streams_alive, events_alive, pinned_bytes, copies_in, working;
static long fail_copy_after = -1, fail_pin_after = -1;

static int device_now(void) { return current ? (int)(current - contexts) : -1; }

/// The block that holds all of a range; -1 if none does. The lock is held.
static int block_of(Address start, size_t len) {
  for (int i = 0; i < MOST; i++)
    if (blocks[i].len && start >= blocks[i].start && start + len <= blocks[i].start + blocks[i].len) return i;
  return -1;
}

static void *host(Address address) { return (void *)(uintptr_t)(address - HIDDEN); }

// ---- the driver ----
int cuInit(unsigned flags) { return flags ? INVALID : 0; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuGetErrorString(int code, const char **text) {
  *text = code == NO_MEMORY ? "out of memory" : code == WRONG_CONTEXT ? "invalid device context"
        : code == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "invalid argument";
  return 0;
}
int cuDeviceGetCount(int *count) { *count = DEVICES; return 0; }
int cuDeviceGet(int *device, int index) { *device = 100 + index; return 0; }
int cuDeviceGetName(char *name, int len, int device) { snprintf(name, len, "Fake %d", device); return 0; }
int cuDeviceGetPCIBusId(char *name, int len, int device) { snprintf(name, len, "0000:AF:%02d.0", device - 100); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &contexts[device - 100]; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return context ? 0 : INVALID; }

int cuMemAlloc_v2(Address *address, size_t len) {
  void *memory;
  if (!current) return WRONG_CONTEXT;
  if (len >= (size_t)1 << 30 || posix_memalign(&memory, 4096, len)) return NO_MEMORY;
  memset(memory, 0xEE, len);
  pthread_mutex_lock(&lock);
  int i = 0;
  while (blocks[i].len) i++;
  blocks[i].start = *address = (Address)(uintptr_t)memory + HIDDEN, blocks[i].len = len, blocks[i].device = device_now();
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuMemFree_v2(Address address) {
  pthread_mutex_lock(&lock);
  int i = block_of(address, 1);
  if (i < 0 || blocks[i].start != address) abort();
  blocks[i].len = 0;
  pthread_mutex_unlock(&lock);
  free(host(address));
  return 0;
}
int cuPointerGetAttribute(void *answer, int attribute, Address address) {
  pthread_mutex_lock(&lock);
  int i = block_of(address, 1);
  pthread_mutex_unlock(&lock);
  if (i < 0) return INVALID;
  *(int *)answer = attribute == 9 ? blocks[i].device : 2;
  return attribute == 9 || attribute == 2 ? 0 : INVALID;
}
static int inside(Address address, size_t len, int device) {
  pthread_mutex_lock(&lock);
  int i = block_of(address, len);
  int code = i < 0 ? ILLEGAL_ADDRESS : device >= 0 && blocks[i].device != device ? INVALID : 0;
  if (!code && fail_copy_after >= 0 && fail_copy_after-- == 0) code = ILLEGAL_ADDRESS;
  pthread_mutex_unlock(&lock);
  return code;
}
int cuMemcpyHtoD_v2(Address to, const void *from, size_t len) {
  int code = current ? inside(to, len, -1) : WRONG_CONTEXT;
  if (!code) memcpy(host(to), from, len);
  return code;
}
int cuMemcpyDtoH_v2(void *to, Address from, size_t len) {
  int code = current ? inside(from, len, -1) : WRONG_CONTEXT;
  if (!code) memcpy(to, host(from), len);
  return code;
}
int cuMemsetD8_v2(Address to, unsigned char value, size_t len) {
  int code = current ? inside(to, len, device_now()) : WRONG_CONTEXT;
  if (!code) memset(host(to), value, len);
  return code;
}
int cuMemHostRegister_v2(void *start, size_t len, unsigned flags) {
  if (!current) return WRONG_CONTEXT;
  if (!start || !len || flags != 1) return INVALID;
  pthread_mutex_lock(&lock);
  int code = fail_pin_after >= 0 && fail_pin_after-- == 0 ? NO_MEMORY : 0, i = 0;
  while (pins[i].len) i++;
  if (!code) pins[i].start = start, pins[i].len = len, pinned_bytes += len;
  pthread_mutex_unlock(&lock);
  return code;
}
int cuMemHostUnregister(void *start) {
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < MOST && !(pins[i].len && pins[i].start == (char *)start)) i++;
  if (i == MOST) abort();
  pinned_bytes -= pins[i].len, pins[i].len = 0;
  pthread_mutex_unlock(&lock);
  return 0;
}

// ---- streams and events ----
typedef struct Copy { void *to; const void *from; size_t len; struct Copy *next; } Copy;
typedef struct { pthread_t thread; int *context; Copy *first, **last; unsigned long queued, done; int ending; } Stream;
typedef struct { Stream *stream; unsigned long until; } Event;

static void *work(void *argument) {
  Stream *stream = argument;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!stream->first && !stream->ending) pthread_cond_wait(&changed, &lock);
    Copy *copy = stream->first;
    if (!copy) break;
    pthread_mutex_unlock(&lock);
    usleep(20);
    memcpy(copy->to, copy->from, copy->len);
    pthread_mutex_lock(&lock);
    if (!(stream->first = copy->next)) stream->last = &stream->first;
    free(copy);
    stream->done++;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}
int cuStreamCreate(void **answer, unsigned flags) {
  if (!current || flags != 1) return current ? INVALID : WRONG_CONTEXT;
  Stream *stream = calloc(1, sizeof *stream);
  stream->context = current, stream->last = &stream->first;
  __atomic_fetch_add(&streams_alive, 1, __ATOMIC_SEQ_CST);
  pthread_create(&stream->thread, NULL, work, stream);
  *answer = stream;
  return 0;
}
int cuStreamSynchronize(void *which) {
  Stream *stream = which;
  if (current != stream->context) return WRONG_CONTEXT;
  pthread_mutex_lock(&lock);
  while (stream->done < stream->queued) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuStreamDestroy_v2(void *which) {
  Stream *stream = which;
  pthread_mutex_lock(&lock);
  stream->ending = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  pthread_join(stream->thread, NULL);
  __atomic_fetch_sub(&streams_alive, 1, __ATOMIC_SEQ_CST);
  free(stream);
  return 0;
}
static int start(void *which, Address device, void *memory, size_t len, int out) {
  Stream *stream = which;
  if (current != stream->context) return WRONG_CONTEXT;
  int code = inside(device, len, device_now());
  if (code) return code;
  Copy *copy = calloc(1, sizeof *copy);
  copy->to = out ? memory : host(device), copy->from = out ? host(device) : memory, copy->len = len;
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < MOST && !(pins[i].len && (char *)memory >= pins[i].start && (char *)memory + len <= pins[i].start + pins[i].len)) i++;
  unpinned += i == MOST, copies_in += !out;
  *stream->last = copy, stream->last = &copy->next, stream->queued++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t len, void *stream) { return start(stream, to, (void *)from, len, 0); }
int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t len, void *stream) { return start(stream, from, to, len, 1); }
int cuEventCreate(void **answer, unsigned flags) {
  if (!current || flags != 3) return current ? INVALID : WRONG_CONTEXT;
  __atomic_fetch_add(&events_alive, 1, __ATOMIC_SEQ_CST);
  return (*answer = calloc(1, sizeof(Event))) ? 0 : NO_MEMORY;
}
int cuEventRecord(void *which, void *on) {
  Event *event = which;
  if (current != ((Stream *)on)->context) return WRONG_CONTEXT;
  event->stream = on;
  pthread_mutex_lock(&lock);
  event->until = event->stream->queued;
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuEventQuery(void *which) {
  Event *event = which;
  if (current != event->stream->context) return WRONG_CONTEXT;
  pthread_mutex_lock(&lock);
  int code = event->stream->done < event->until ? NOT_READY : 0;
  pthread_mutex_unlock(&lock);
  return code;
}
int cuEventSynchronize(void *which) {
  Event *event = which;
  if (current != event->stream->context) return WRONG_CONTEXT;
  pthread_mutex_lock(&lock);
  while (event->stream->done < event->until) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuEventDestroy_v2(void *event) { __atomic_fetch_sub(&events_alive, 1, __ATOMIC_SEQ_CST); free(event); return 0; }

// ---- what an application does on its GPU, and what tests look at ----
typedef struct { Address to; int value; size_t len; unsigned usec; } Task;
static void *finish(void *argument) {
  Task *task = argument;
  usleep(task->usec);
  memset(host(task->to), task->value, task->len);
  free(task);
  pthread_mutex_lock(&lock);
  working--;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return NULL;
}
/// A kernel that sets memory, and takes so long for it.
void standin_work(Address to, int value, size_t len, unsigned usec) {
  Task *task = malloc(sizeof *task);
  *task = (Task){to, value, len, usec};
  pthread_mutex_lock(&lock);
  working++;
  pthread_mutex_unlock(&lock);
  pthread_t thread;
  pthread_create(&thread, NULL, finish, task);
  pthread_detach(thread);
}
int cuCtxSynchronize(void) {
  if (!current) return WRONG_CONTEXT;
  pthread_mutex_lock(&lock);
  while (working) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return 0;
}
void standin_fail(long copy_after, long pin_after) { fail_copy_after = copy_after, fail_pin_after = pin_after; }
/// Copies from memory that was not pinned, streams and events alive, bytes pinned, copies into GPUs on streams.
void standin_counts(unsigned long *counts) {
  counts[0] = unpinned, counts[1] = streams_alive, counts[2] = events_alive, counts[3] = pinned_bytes;
  counts[4] = copies_in;
}

// ---- cuFile ----
typedef struct { int err; int cu; } Status;
typedef struct { int type; union { int fd; void *handle; } handle; const void *ops; } Description;
typedef struct { unsigned major, minor; size_t poll, direct; unsigned status, control, features, rest[4]; } Properties;
static int level, counting;
static uint64_t reads[DEVICES], writes[DEVICES], read_bytes[DEVICES], written_bytes[DEVICES];
static int peer_to_peer(void) { return getenv("STANDIN_P2P") != NULL; }

Status cuFileDriverOpen(void) { return (Status){0, 0}; }
Status cuFileGetVersion(int *version) { *version = 1140; return (Status){0, 0}; }
Status cuFileDriverGetProperties(Properties *p) {
  memset(p, 0, sizeof *p);
  p->major = 2, p->minor = 17, p->features = peer_to_peer() ? 1 << 4 : 0;
  return (Status){0, 0};
}
Status cuFileGetParameterBool(int which, _Bool *value) {
  if (which < 0 || which > 11) return (Status){5022, 0};
  *value = which == 1 || (which == 7 && peer_to_peer());
  return (Status){0, 0};
}
Status cuFileHandleRegister(void **handle, Description *d) {
  if (d->type != 1 || d->ops || d->handle.fd < 3) return (Status){5022, 0};
  *handle = (void *)(intptr_t)(d->handle.fd + 1);
  return (Status){0, 0};
}
void cuFileHandleDeregister(void *handle) { if (!handle) abort(); }
Status cuFileBufRegister(const void *start, size_t len, int flags) { return (Status){len && !flags ? inside((Address)start, len, -1) : 5022, 0}; }
Status cuFileBufDeregister(const void *start) { return (Status){start ? 0 : 5024, 0}; }
static ssize_t move(void *h, Address base, size_t len, off_t at, off_t place, int out) {
  pthread_mutex_lock(&lock);
  int i = block_of(base + place, len), fd = (int)(intptr_t)h - 1;
  pthread_mutex_unlock(&lock);
  if (i < 0) return -5014;
  ssize_t moved = out ? pwrite(fd, host(base + place), len, at) : pread(fd, host(base + place), len, at);
  if (moved > 0 && counting) {
    __atomic_fetch_add(&(out ? writes : reads)[blocks[i].device], 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&(out ? written_bytes : read_bytes)[blocks[i].device], moved, __ATOMIC_SEQ_CST);
  }
  return moved;
}
ssize_t cuFileRead(void *h, void *base, size_t len, off_t at, off_t place) { return move(h, (Address)base, len, at, place, 0); }
ssize_t cuFileWrite(void *h, const void *base, size_t len, off_t at, off_t place) { return move(h, (Address)base, len, at, place, 1); }
Status cuFileSetStatsLevel(int wanted) { level = wanted; return (Status){wanted < 0 || wanted > 3 ? 5022 : 0, 0}; }
Status cuFileStatsStart(void) { counting = level > 0; return (Status){0, 0}; }
/// CUfileStatsLevel3_t, in words of 8 bytes.
Status cuFileGetStatsL3(uint64_t *answer) {
  if (level < 3) return (Status){5022, 0};
  memset(answer, 0, 5112);
  *(uint32_t *)(answer + 142) = DEVICES;
  for (int i = 0; i < DEVICES; i++) {
    uint64_t *gpu = answer + 143 + 31 * i;
    gpu[2] = read_bytes[i], gpu[6] = reads[i], gpu[peer_to_peer() ? 7 : 9] = reads[i];
    gpu[15] = written_bytes[i], gpu[19] = writes[i], gpu[peer_to_peer() ? 20 : 22] = writes[i];
  }
  return (Status){0, 0};
}

// ---- the management library ----
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } Pci;
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned len) { snprintf(text, len, "550.54.15"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = DEVICES; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &contexts[index]; return index < DEVICES ? 0 : 2; }
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->address, sizeof pci->address, "00000000:AF:%02d.0", (int)((int *)device - contexts));
  return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned len) { snprintf(name, len, "Fake %d", 100 + (int)((int *)device - contexts)); return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *value) { *value = 5; return device ? 0 : 2; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *value) { *value = 1; return device ? 0 : 2; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *value) { *value = 16; return device ? 0 : 2; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *value) { *value = 8; return device ? 0 : 2; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) { *now = *pending = device == &contexts[1]; return device == &contexts[0] ? 3 : 0; }
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) { *mhz = type == 1 ? 345 : type == 2 ? 3201 : 0; return device ? 0 : 2; }
int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz) { *mhz = type == 1 ? 1980 : type == 2 ? 3201 : 0; return device ? 0 : 2; }
