/* Rings of events of variable length, from the monitor and the samplers to the recorder.
 *
 * Each ring has one writer; all rings share one reader, without locks. Writers never wait: a full ring drops and counts
 * samples, and the writer of any other event retries on its next tick. */
#ifndef OBSERVER_RING_H
#define OBSERVER_RING_H

#include "base/observer_base.h"
#include "capture/observer_unwind.h"
#include "evidence/observer_descriptor.h"
#include "evidence/observer_evidence.h"
#include "evidence/observer_lock.h"
#include "slots/observer_slot.h"

enum observer_event_kind {
  OBSERVER_EVENT_SAMPLE = 1,
  OBSERVER_EVENT_STALL_BEGAN = 2,
  OBSERVER_EVENT_WORK_ITEM_ENDED = 3,   /* a sampled work item ended, stalled or not */
  OBSERVER_EVENT_ALL_THREADS_BEGAN = 4, /* a capture begins, for the stalls declared so far */
  OBSERVER_EVENT_THREAD = 5,
  OBSERVER_EVENT_ALL_THREADS_ENDED = 6,
  OBSERVER_EVENT_HANG = 7,
  OBSERVER_EVENT_GOES_ON = 8, /* dropped if there is no room */
  OBSERVER_EVENT_STAYED = 9,  /* a suspended task is unchanged */
};

enum observer_role {
  OBSERVER_OF_WORKER = 0,         /* the thread or task that does the work */
  OBSERVER_OF_ONE_OF_SEVERAL = 1, /* one of several threads that do the work */
  OBSERVER_OF_ONE_IN_THE_WAY = 2, /* a thread on which the work could run */
  OBSERVER_OF_HOLDER = 3,         /* owner of an awaited lock */
  OBSERVER_OF_ONE_ON_ACTOR = 4,   /* a thread that runs something on the work's actor */
};

struct observer_event {
  uint32_t kind; /* enum observer_event_kind */
  uint32_t slot;
  uint32_t generation;   /* the slot's owner at that time */
  int32_t tid;           /* 0: unknown */
  uint64_t item;         /* begin of the work item */
  uint64_t time_ns;      /* CLOCK_MONOTONIC */
  uint64_t age_ns;       /* excluding times when the process was not running */
  uint64_t gap_ns;       /* excluded from age_ns */
  uint64_t lost;         /* samples lost to a full ring; in captures of all threads: omitted threads */
  uint64_t spared;       /* samples skipped because of the CPU budget; the monitor's events only */
  uint64_t threshold_ns; /* stalls only */
  uint64_t all_threads;  /* number of the capture; captures and their threads only */
  uint32_t served;       /* last request that the capture answers; captures only */
  uint32_t found;        /* threads found; captures only */
  /* Samples and threads only. */
  uint64_t cpu_ns;
  uint64_t run_delay_ns; /* in ns; UINT64_MAX: unknown. Samples only */
  uint64_t handler_ns;
  uint64_t unwind_ns;
  uint32_t status;     /* enum observer_capture_status */
  uint32_t end;        /* enum unwind_end */
  uint32_t activity;   /* enum observer_activity */
  int32_t call;        /* -1: none or unknown */
  uint32_t count;      /* frames that follow */
  uint32_t queue_head; /* observer_slot_queue_head; samples only */
  uint32_t waiting;    /* 0: not counted. Samples only */
  struct observer_label label;
  struct observer_descriptor descriptor; /* empty: none; samples only */
  struct observer_lock lock;             /* awaited lock; samples only */
  struct observer_evidence evidence;     /* samples only */
  uint64_t holds;                        /* lock that another thread waits for; lock owners only */
  bool is_held;                          /* still held after the copy */
  uint32_t left_out;                     /* frames omitted after the first UNWIND_FRAMES_INNER */
  uint32_t joined_from;                  /* index of the first frame taken from an earlier stack; 0: none */
  uint32_t role;                         /* enum observer_role; samples only */
  bool is_shared;                        /* taken for another slot; samples only */
  uint64_t order;                        /* sequence number over all rings */
  struct unwind_frame frames[];
};

/* Returns EVENT's frames, innermost first. Async-signal-safe: yes. Threads: any. */
static inline const struct unwind_frame *observer_event_frames(const struct observer_event *event) {
  return event->frames;
}

struct observer_ring;

/* Creates a ring of CAPACITY bytes, a power of two of at least 64 KiB; NULL if there is no memory. Async-signal-safe:
 * no. Threads: any. */
struct observer_ring *observer_ring_create(size_t capacity);

/* Creates a ring that shares the reader of FIRST, which must outlive the new ring. Async-signal-safe: no. Threads:
 * any. */
struct observer_ring *observer_ring_create_beside(size_t capacity, struct observer_ring *first);

/* Async-signal-safe: no. Threads: any, after writer and reader have ended. */
void observer_ring_destroy(struct observer_ring *ring);

/* Returns the number of events written to all rings of RING's reader, for observer_ring_wait. Must be called before the
 * rings are read. Async-signal-safe: yes. Threads: the reader. */
uint32_t observer_ring_published(const struct observer_ring *ring);

/* Waits until more than SEEN events were written, or until observer_ring_wake_reader. Async-signal-safe: yes. Threads:
 * the reader. */
void observer_ring_wait(const struct observer_ring *ring, uint32_t seen);

/* Makes observer_ring_wait return. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void observer_ring_wake_reader(struct observer_ring *ring);

/* Whether there is room for EVENTS events of any size. Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_has_room(const struct observer_ring *ring, uint32_t events);

/* Whether at most half of the ring is in use; the other half is for important events. Async-signal-safe: yes. Threads:
 * the writer. */
CLINUX_NO_LOCKS bool observer_ring_is_half_free(const struct observer_ring *ring);

/* Appends EVENT with COUNT frames and wakes the reader. Returns false if there is no room. Async-signal-safe: yes.
 * Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_write(struct observer_ring *ring, const struct observer_event *event,
                                         const struct unwind_frame *frames, uint32_t count);

/* Appends EVENT without waking the reader; observer_ring_wake_reader must follow before the writer waits.
 * Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_add(struct observer_ring *ring, const struct observer_event *event,
                                       const struct unwind_frame *frames, uint32_t count);

/* Returns RING's oldest event, valid until observer_ring_consume, or NULL. The next event of several rings is the
 * oldest event with the lowest `order`. A ring must be read after the rings that contain effects of its events.
 * Async-signal-safe: yes. Threads: the reader. */
const struct observer_event *observer_ring_read(struct observer_ring *ring);

/* Removes the event of observer_ring_read. Async-signal-safe: yes. Threads: the reader. */
void observer_ring_consume(struct observer_ring *ring);

#endif
