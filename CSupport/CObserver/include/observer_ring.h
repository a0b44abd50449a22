/* The way from the monitor and the samplers to the recorder: rings of events of varying length.
 *
 * Each ring has one writer, and all of them have the same reader (the recorder), no lock. A writer never waits: when
 * its ring is full a sample is dropped and counted. Events that open or close something (a stall, a work item) must not
 * be lost; their writer keeps them and tries again on its next tick.
 */
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
  OBSERVER_EVENT_WORK_ITEM_ENDED = 3,   /* a work item that was sampled is over, stalled or not */
  OBSERVER_EVENT_ALL_THREADS_BEGAN = 4, /* all threads are being captured, for the stalls that were declared by now */
  OBSERVER_EVENT_THREAD = 5,            /* one of them */
  OBSERVER_EVENT_ALL_THREADS_ENDED = 6, /* that was all */
  OBSERVER_EVENT_HANG = 7,              /* a stall has lasted so long that it is a hang */
  OBSERVER_EVENT_GOES_ON = 8,           /* a stall still lasts; not sent again when there is no room */
  OBSERVER_EVENT_STAYED = 9,            /* a suspended task is where its last sample found it */
};

/* Whose stack a sample has. */
enum observer_whose {
  OBSERVER_OF_WORKER = 0,         /* of the thread that works on the work item, or of its task */
  OBSERVER_OF_ONE_OF_SEVERAL = 1, /* of one of several threads that do */
  OBSERVER_OF_ONE_IN_THE_WAY = 2, /* of a thread that the work waits for: it could run on it */
  OBSERVER_OF_HOLDER = 3,         /* of a thread that holds what another one waits for */
  OBSERVER_OF_ONE_ON_ACTOR = 4,   /* of a thread that the work waits for: it runs something on the work's actor */
};

struct observer_event {
  uint32_t kind;       /* enum observer_event_kind */
  uint32_t slot;       /* index of the target slot */
  uint32_t generation; /* the slot's owner when the event happened */
  int32_t tid;         /* the thread that worked on the work item, 0 if unknown */
  uint64_t item;       /* the work item: its begin, CLOCK_MONOTONIC, as observer_slot.h has it */
  uint64_t time_ns;    /* when it happened, CLOCK_MONOTONIC */
  uint64_t age_ns;     /* age of the work item by then, without the times when the process was not running */
  uint64_t gap_ns;     /* how much was left out of age_ns for that reason so far */
  uint64_t lost; /* samples of this work item that found the ring full so far; all threads: those that were left out */
  uint64_t spared; /* samples of this work item that were not taken for want of processor time; the monitor's only */
  uint64_t threshold_ns; /* what the work item may take; stalls only */
  uint64_t all_threads;  /* which all-threads capture; these and their threads only */
  uint32_t served; /* the last request for a capture of all threads that this one answers; all-threads captures only */
  uint32_t found;  /* how many threads there were; all-threads captures only */
  /* Samples and threads only. */
  uint64_t cpu_ns; /* the thread's processor time so far */
  uint64_t
      run_delay_ns;    /* how long it could have run so far and had no processor; UINT64_MAX if unknown. Samples only */
  uint64_t handler_ns; /* time in the handler */
  uint64_t unwind_ns;  /* time unwinding */
  uint32_t status;     /* enum observer_capture_status */
  uint32_t end;        /* enum unwind_end */
  uint32_t activity;   /* enum observer_activity */
  int32_t call;        /* the system call that the thread was blocked in, -1 if in none, or not known */
  uint32_t count;      /* frames that follow */
  uint32_t queue_head; /* observer_slot_queue_head of the work item's slot; samples only */
  uint32_t waiting;    /* observer_queue_waiting of it; 0: not counted. Samples only */
  struct observer_label label;
  struct observer_descriptor descriptor; /* of the system call; samples only; none where it has no target */
  struct observer_lock lock;             /* what it waits for; samples only; of no kind where that is nothing */
  struct observer_evidence evidence;     /* samples only */
  uint64_t holds;                        /* what it holds that another one waits for; of holders only */
  bool is_held;                          /* whether it still did when its stack had been taken */
  uint32_t left_out;                     /* frames that are not among them, behind the first UNWIND_FRAMES_INNER */
  uint32_t joined_from;                  /* the first frame that is an earlier stack's, 0 if none is */
  uint32_t whose;                        /* enum observer_whose; samples only */
  bool is_shared;                        /* the look was for another slot, which tells its cost; samples only */
  uint64_t order;                        /* of the events of all rings; set by observer_ring_add */
  struct unwind_frame frames[];
};

/* The frames of EVENT, EVENT->count of them, innermost first. Async-signal-safe: yes. Threads: any. */
static inline const struct unwind_frame *observer_event_frames(const struct observer_event *event) {
  return event->frames;
}

struct observer_ring;

/* Makes a ring of CAPACITY bytes, a power of two of at least 64 KiB. Resident only as far as it is used. Returns NULL
 * when there is no memory.
 * Async-signal-safe: no. Threads: any. */
struct observer_ring *observer_ring_create(size_t capacity);

/* The same for a ring that FIRST's reader reads, too: whoever writes to one of them wakes him. FIRST must outlive it.
 * Async-signal-safe: no. Threads: any. */
struct observer_ring *observer_ring_create_beside(size_t capacity, struct observer_ring *first);

/* Frees RING. Async-signal-safe: no. Threads: any, after writer and reader have ended. */
void observer_ring_destroy(struct observer_ring *ring);

/* How many events were written so far to RING and those beside it, read before looking for one: observer_ring_wait then
 * misses none.
 * Async-signal-safe: yes. Threads: the reader. */
uint32_t observer_ring_published(const struct observer_ring *ring);

/* Waits until more events were written than SEEN, or observer_ring_wake_reader is called.
 * Async-signal-safe: yes. Threads: the reader. */
void observer_ring_wait(const struct observer_ring *ring, uint32_t seen);

/* Makes observer_ring_wait return. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void observer_ring_wake_reader(struct observer_ring *ring);

/* Whether there is room for so many EVENTS, however many frames they have.
 * Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_has_room(const struct observer_ring *ring, uint32_t events);

/* Whether at most half of it is in use: what matters less leaves the other half to what matters.
 * Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_is_half_free(const struct observer_ring *ring);

/* Appends EVENT with the COUNT frames at FRAMES and wakes the reader. Returns false, having done nothing, when there is
 * no room.
 * Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_write(struct observer_ring *ring, const struct observer_event *event,
                                         const struct unwind_frame *frames, uint32_t count);

/* The same without waking the reader: observer_ring_wake_reader is to be called when there are enough for him, and
 * before the writer waits for anything. Async-signal-safe: yes. Threads: the writer. */
CLINUX_NO_LOCKS bool observer_ring_add(struct observer_ring *ring, const struct observer_event *event,
                                       const struct unwind_frame *frames, uint32_t count);

/* RING's oldest event, or NULL when there is none. Where an event of one ring came because of one of another, read the
 * ring of the cause last, and take the event whose order is lowest. Valid until observer_ring_consume.
 * Async-signal-safe: yes. Threads: the reader. */
const struct observer_event *observer_ring_read(struct observer_ring *ring);

/* Removes the event that observer_ring_read returned.
 * Async-signal-safe: yes. Threads: the reader. */
void observer_ring_consume(struct observer_ring *ring);

#endif
