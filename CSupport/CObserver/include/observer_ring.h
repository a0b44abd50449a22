/* Rings of events of variable length, from the monitor and the samplers to the recorder.
 *
 * Each ring has one writer; all rings share one reader (the recorder), without locks. Writers never wait: if the ring
 * is full, a sample is dropped and counted. Events that open or close something (a stall, a work item) must not be
 * lost; their writer keeps them and tries again on its next tick. */
#ifndef OBSERVER_RING_H
#define OBSERVER_RING_H

#include "observer_base.h"
#include "observer_descriptor.h"
#include "observer_evidence.h"
#include "observer_lock.h"
#include "observer_slot.h"
#include "observer_unwind.h"

enum observer_event_kind {
  OBSERVER_EVENT_SAMPLE = 1,            /* a stack of a work item under suspicion or in a stall */
  OBSERVER_EVENT_STALL_BEGAN = 2,       /* the work item passed its threshold */
  OBSERVER_EVENT_WORK_ITEM_ENDED = 3,   /* a work item that was sampled has ended, stalled or not */
  OBSERVER_EVENT_ALL_THREADS_BEGAN = 4, /* all threads are being captured, for the stalls declared so far */
  OBSERVER_EVENT_THREAD = 5,            /* one thread of the capture */
  OBSERVER_EVENT_ALL_THREADS_ENDED = 6, /* the capture has ended */
  OBSERVER_EVENT_HANG = 7,              /* a stall has become a hang */
  OBSERVER_EVENT_GOES_ON = 8,           /* a stall continues; dropped if there is no room */
  OBSERVER_EVENT_STAYED = 9,            /* a suspended task is unchanged since its last sample */
};

/* The relation of a sampled thread to the work item. */
enum observer_role {
  OBSERVER_OF_WORKER = 0,         /* the thread that works on the work item, or its task */
  OBSERVER_OF_ONE_OF_SEVERAL = 1, /* one of several threads that work on it */
  OBSERVER_OF_ONE_IN_THE_WAY = 2, /* a thread that the work waits for: the work could run on it */
  OBSERVER_OF_HOLDER = 3,         /* a lock owner that another thread waits for */
  OBSERVER_OF_ONE_ON_ACTOR = 4,   /* a thread that runs something on the work's actor */
};

struct observer_event {
  uint32_t kind;       /* enum observer_event_kind */
  uint32_t slot;       /* index of the target slot */
  uint32_t generation; /* the slot's owner at the time of the event */
  int32_t tid;         /* the thread that worked on the work item, 0 if unknown */
  uint64_t item;       /* the work item: its begin, CLOCK_MONOTONIC, as in observer_slot.h */
  uint64_t time_ns;    /* time of the event, CLOCK_MONOTONIC */
  uint64_t age_ns;     /* age of the work item, excluding times when the process was not running */
  uint64_t gap_ns;     /* time excluded from age_ns so far */
  uint64_t lost;   /* samples of this work item lost to a full ring so far; all threads: number of omitted threads */
  uint64_t spared; /* samples of this work item not taken because of the CPU budget; the monitor's only */
  uint64_t threshold_ns; /* threshold of the work item; stalls only */
  uint64_t all_threads;  /* number of the all-threads capture; these and their threads only */
  uint32_t served; /* the last request for a capture of all threads that this one answers; all-threads captures only */
  uint32_t found;  /* number of threads; all-threads captures only */
  /* Samples and threads only. */
  uint64_t cpu_ns; /* the thread's CPU time so far */
  uint64_t
      run_delay_ns; /* time the thread was runnable without a CPU so far, in ns; UINT64_MAX if unknown. Samples only */
  uint64_t handler_ns; /* time in the handler */
  uint64_t unwind_ns;  /* time unwinding */
  uint32_t status;     /* enum observer_capture_status */
  uint32_t end;        /* enum unwind_end */
  uint32_t activity;   /* enum observer_activity */
  int32_t call;        /* the system call in which the thread was blocked, -1 if none or unknown */
  uint32_t count;      /* number of frames that follow */
  uint32_t queue_head; /* observer_slot_queue_head of the work item's slot; samples only */
  uint32_t waiting;    /* observer_queue_waiting of queue_head; 0: not counted. Samples only */
  struct observer_label label;
  struct observer_descriptor descriptor; /* of the system call; samples only; empty if it has no target */
  struct observer_lock lock;         /* the lock that it waits for; samples only; OBSERVER_LOCK_NONE if there is none */
  struct observer_evidence evidence; /* samples only */
  uint64_t holds;                    /* the lock it holds and another thread waits for; lock owners only */
  bool is_held;                      /* whether it still held the lock after its stack was copied */
  uint32_t left_out;                 /* number of frames omitted behind the first UNWIND_FRAMES_INNER */
  uint32_t joined_from;              /* index of the first frame taken from an earlier stack, 0 if none */
  uint32_t role;                     /* enum observer_role; samples only */
  bool is_shared;                    /* sampled for another slot, which accounts for its cost; samples only */
  uint64_t order;                    /* sequence number over all rings; set by observer_ring_add */
  struct unwind_frame frames[];
};

/* Returns the frames of EVENT, EVENT->count of them, innermost first. Async-signal-safe: yes. Threads: any. */
static inline const struct unwind_frame *observer_event_frames(const struct observer_event *event) {
  return event->frames;
}

struct observer_ring;

/* Creates a ring of CAPACITY bytes, a power of two of at least 64 KiB. Only the used part becomes resident. Returns
 * NULL if there is no memory. Async-signal-safe: no. Threads: any. */
struct observer_ring *observer_ring_create(size_t capacity);

/* Creates a ring that shares FIRST's reader: writing to either ring wakes the reader. FIRST must outlive it.
 * Async-signal-safe: no. Threads: any. */
struct observer_ring *observer_ring_create_beside(size_t capacity, struct observer_ring *first);

/* Frees RING. Async-signal-safe: no. Threads: any, after writer and reader have ended. */
void observer_ring_destroy(struct observer_ring *ring);

/* Returns the number of events written so far to RING and the rings that share its reader. If called before looking for
 * an event, observer_ring_wait misses none. Async-signal-safe: yes. Threads: the reader. */
uint32_t observer_ring_published(const struct observer_ring *ring);

/* Waits until more than SEEN events were written, or observer_ring_wake_reader is called. Async-signal-safe: yes.
 * Threads: the reader. */
void observer_ring_wait(const struct observer_ring *ring, uint32_t seen);

/* Makes observer_ring_wait return. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void observer_ring_wake_reader(struct observer_ring *ring);

/* Whether there is room for EVENTS events with any number of frames. Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_has_room(const struct observer_ring *ring, uint32_t events);

/* Whether at most half of the ring is in use. Less important events leave the other half to important ones.
 * Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_is_half_free(const struct observer_ring *ring);

/* Appends EVENT with the COUNT frames at FRAMES and wakes the reader. Returns false without any effect if there is no
 * room. Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_write(struct observer_ring *ring, const struct observer_event *event,
                                         const struct unwind_frame *frames, uint32_t count);

/* Appends EVENT as observer_ring_write does, without waking the reader. observer_ring_wake_reader must be called after
 * enough events, and before the writer waits. Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_add(struct observer_ring *ring, const struct observer_event *event,
                                       const struct unwind_frame *frames, uint32_t count);

/* Returns RING's oldest event, or NULL. If events of one ring are caused by events of another, read the ring of the
 * causes last, and take the event with the lowest order. Valid until observer_ring_consume. Async-signal-safe: yes.
 * Threads: the reader. */
const struct observer_event *observer_ring_read(struct observer_ring *ring);

/* Removes the event that observer_ring_read returned.
 * Async-signal-safe: yes. Threads: the reader. */
void observer_ring_consume(struct observer_ring *ring);

#endif
