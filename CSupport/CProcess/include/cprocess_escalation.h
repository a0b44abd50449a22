/* State shared by the escalation thread, which acts on stalls that do not end, the blocking worker, which does blocking
 * work for this thread, and the handlers, which can veto a termination. */
#ifndef CPROCESS_ESCALATION_H
#define CPROCESS_ESCALATION_H

#include "clinux_base.h"
#include "clinux_clock.h"
#include "clinux_task.h"
#include "clinux_wait.h"
#include "cprocess_cpu.h"

enum { CPROCESS_TEXT_BYTES = 1024, CPROCESS_REASON_BYTES = 2 * CPROCESS_TEXT_BYTES };

struct cprocess_text {
  _Atomic uint32_t state;
  /* The other fields belong to the thread that has set STATE to WRITING or READING. */
  uint32_t number;
  uint32_t bytes;
  char text[CPROCESS_TEXT_BYTES];
};

enum cprocess_text_state {
  CPROCESS_TEXT_NONE = 0,
  CPROCESS_TEXT_WRITING = 1,
  CPROCESS_TEXT_READY = 2,
  CPROCESS_TEXT_READING = 3,
};

enum cprocess_notice {
  CPROCESS_NOTICE_READY = 1,
  CPROCESS_NOTICE_STOPPING = 2,
};

struct cprocess_termination_request {
  uint32_t slot;
  uint64_t item;
  uint64_t age_ns;
  uint64_t limit_ns;
  int32_t tid;
  struct cprocess_cpu used; /* since `used.taken_ns` */
  uint64_t elapsed_ns;      /* since `used.taken_ns` */
  uint32_t cpus;
  uint64_t thread_ns;         /* CPU time since the work item was suspected */
  uint64_t thread_elapsed_ns; /* time since the suspicion; 0: unknown */
  uint32_t reason_bytes;
};

struct cprocess_escalation {
  _Atomic uint32_t wake;
  _Atomic uint32_t stop;
  _Atomic uint32_t started;
  _Atomic uint32_t notices; /* enum cprocess_notice, to be sent */
  _Atomic uint32_t request;
  _Atomic uint32_t request_done;
  _Atomic uint32_t request_wake;
  _Atomic int32_t worker_tid;
  _Atomic uint64_t pings;
  _Atomic uint64_t pings_withheld;
  _Atomic int32_t send_error;
  _Atomic uint64_t terminate_after_ns;
  _Atomic uint32_t question_wake;
  _Atomic uint64_t question; /* asks all handlers whether to terminate, and collects answers */
  _Atomic uint64_t shutdown_ns;
  _Atomic uint32_t shutdown_base_set;
  struct cprocess_cpu shutdown_base;
  uint64_t shutdown_thread_base; /* of the main thread */
  struct cprocess_termination_request termination;
  char reason[CPROCESS_REASON_BYTES]; /* of the termination */
  struct cprocess_text culprit;
  struct cprocess_text status; /* for systemd */
};

/* The parts of a question, from the top:
 *   number of the question, 32 bits; odd while the question is open
 *   whether a handler vetoes the termination, 1 bit
 *   number of handlers, 15 bits
 *   number of handlers that have not answered, 16 bits */
enum { CPROCESS_QUESTION_SHIFT = 32 };
#define CPROCESS_QUESTION_VETOED (UINT64_C(1) << 31)
#define CPROCESS_QUESTION_HANDLER (UINT64_C(1) << 16)
#define CPROCESS_QUESTION_HANDLERS_MASK (CPROCESS_QUESTION_VETOED - CPROCESS_QUESTION_HANDLER)
#define CPROCESS_QUESTION_UNANSWERED_MASK (CPROCESS_QUESTION_HANDLER - 1)

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_wake(struct cprocess_escalation *escalation) {
  clinux_notify(&escalation->wake);
}

/* Returns the word to wait on; must be called before checking for work. Async-signal-safe: yes. Threads: the escalation
 * thread. */
static inline CLINUX_NO_LOCKS uint32_t cprocess_escalation_word(const struct cprocess_escalation *escalation) {
  return clinux_word(&escalation->wake);
}

/* Waits until the word differs from SEEN, or until DEADLINE_NS. Async-signal-safe: yes. Threads: the escalation
 * thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_wait(const struct cprocess_escalation *escalation, uint32_t seen,
                                                            uint64_t deadline_ns) {
  clinux_wait(&escalation->wake, seen, deadline_ns);
}

/* Ends the escalation thread, the blocking worker and the handlers' threads. Async-signal-safe: yes. Threads: any. */
static inline void cprocess_escalation_stop(struct cprocess_escalation *escalation) {
  atomic_store_explicit(&escalation->stop, 1, memory_order_release);
  clinux_notify(&escalation->wake);
  clinux_notify(&escalation->request_wake);
  clinux_notify(&escalation->question_wake);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_stopping(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->stop, memory_order_acquire) != 0;
}

/* Counts the calling thread as started. Async-signal-safe: yes. Threads: the escalation thread, the blocking worker. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_start(struct cprocess_escalation *escalation) {
  atomic_fetch_add_explicit(&escalation->started, 1, memory_order_release);
}

/* Async-signal-safe: yes. Threads: the blocking worker. */
static inline void cprocess_escalation_set_worker(struct cprocess_escalation *escalation) {
  atomic_store_explicit(&escalation->worker_tid, clinux_task_self(), memory_order_release);
}

/* Returns the blocking worker's CPU time; 0: none. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t cprocess_escalation_worker_cpu_ns(const struct cprocess_escalation *escalation) {
  int32_t tid = atomic_load_explicit(&escalation->worker_tid, memory_order_acquire);
  return tid == 0 ? 0 : clinux_clock_thread_cpu_ns(tid);
}

/* Returns the number of started threads, at most two. Async-signal-safe: yes. Threads: any. */
static inline uint32_t cprocess_escalation_started(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->started, memory_order_acquire);
}

/* Requests that NOTICES are sent. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_add_notices(struct cprocess_escalation *escalation,
                                                                   uint32_t notices) {
  atomic_fetch_or_explicit(&escalation->notices, notices, memory_order_release);
  clinux_notify(&escalation->wake);
}

/* Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS uint32_t cprocess_escalation_notices(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->notices, memory_order_acquire);
}

/* Must be called after sending NOTICES. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_remove_notices(struct cprocess_escalation *escalation,
                                                                      uint32_t notices) {
  atomic_fetch_and_explicit(&escalation->notices, ~notices, memory_order_relaxed);
}

/* Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_count_ping(struct cprocess_escalation *escalation, bool sent) {
  atomic_fetch_add_explicit(sent ? &escalation->pings : &escalation->pings_withheld, 1, memory_order_relaxed);
}

/* Async-signal-safe: yes. Threads: any. */
static inline uint64_t cprocess_escalation_pings(const struct cprocess_escalation *escalation, bool sent) {
  return atomic_load_explicit(sent ? &escalation->pings : &escalation->pings_withheld, memory_order_relaxed);
}

/* The errno value of the last failed datagram. Async-signal-safe: yes. Threads: any. */
static inline int32_t cprocess_escalation_send_error(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->send_error, memory_order_relaxed);
}
static inline CLINUX_NO_LOCKS void cprocess_escalation_set_send_error(struct cprocess_escalation *escalation,
                                                                      int32_t error) {
  atomic_store_explicit(&escalation->send_error, error, memory_order_relaxed);
}

/* The age at which a stall ends the process; 0: never. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t
cprocess_escalation_terminate_after_ns(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->terminate_after_ns, memory_order_relaxed);
}
static inline void cprocess_escalation_set_terminate_after_ns(struct cprocess_escalation *escalation,
                                                              uint64_t after_ns) {
  atomic_store_explicit(&escalation->terminate_after_ns, after_ns, memory_order_relaxed);
  clinux_notify(&escalation->wake);
}

/* Records that the shutdown began at TIME_NS. Only the first call has an effect. Async-signal-safe: yes. Threads:
 * any. */
static inline void cprocess_escalation_begin_shutdown(struct cprocess_escalation *escalation, uint64_t time_ns) {
  uint64_t none = 0;
  atomic_compare_exchange_strong_explicit(&escalation->shutdown_ns, &none, time_ns, memory_order_release,
                                          memory_order_relaxed);
  clinux_notify(&escalation->wake);
}

/* Returns the time at which the shutdown began; 0: not yet. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t cprocess_escalation_shutdown_ns(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->shutdown_ns, memory_order_acquire);
}

/* Records the CPU times at the begin of the shutdown; THREAD_NS is the main thread's. Async-signal-safe: yes. Threads:
 * the escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_note_shutdown(struct cprocess_escalation *escalation,
                                                                     struct cprocess_cpu base, uint64_t thread_ns) {
  escalation->shutdown_base = base;
  escalation->shutdown_thread_base = thread_ns;
  atomic_store_explicit(&escalation->shutdown_base_set, 1, memory_order_release);
}

/* Reads the recorded CPU times. Returns false if there are none. Async-signal-safe: yes. Threads: any. */
static inline bool cprocess_escalation_shutdown_base(const struct cprocess_escalation *escalation,
                                                     struct cprocess_cpu *base, uint64_t *thread_ns) {
  if (!atomic_load_explicit(&escalation->shutdown_base_set, memory_order_acquire))
    return false;
  *base = escalation->shutdown_base;
  *thread_ns = escalation->shutdown_thread_base;
  return true;
}

/* Returns the number of the open question; 0: none. */
static inline uint32_t cprocess_question_number(uint64_t question) {
  uint32_t number = (uint32_t)(question >> CPROCESS_QUESTION_SHIFT);
  return (number & 1) != 0 ? number : 0;
}

/* Add or remove a handler, and return the number of the open question (0: none). An added handler does not take part in
 * that question; a removed handler must still answer it. Async-signal-safe: yes. Threads: any. */
static inline uint32_t cprocess_escalation_add_handler(struct cprocess_escalation *escalation) {
  return cprocess_question_number(
      atomic_fetch_add_explicit(&escalation->question, CPROCESS_QUESTION_HANDLER, memory_order_acq_rel));
}
static inline uint32_t cprocess_escalation_remove_handler(struct cprocess_escalation *escalation) {
  uint32_t number = cprocess_question_number(
      atomic_fetch_sub_explicit(&escalation->question, CPROCESS_QUESTION_HANDLER, memory_order_acq_rel));
  clinux_notify(&escalation->question_wake);
  return number;
}

/* Opens a question to all handlers. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_ask(struct cprocess_escalation *escalation) {
  uint64_t question = atomic_load_explicit(&escalation->question, memory_order_relaxed), next;
  do {
    uint64_t number = (question >> CPROCESS_QUESTION_SHIFT | 1) + 2;
    uint64_t handlers = question & CPROCESS_QUESTION_HANDLERS_MASK;
    next = number << CPROCESS_QUESTION_SHIFT | handlers | handlers / CPROCESS_QUESTION_HANDLER;
  } while (!atomic_compare_exchange_weak_explicit(&escalation->question, &question, next, memory_order_acq_rel,
                                                  memory_order_relaxed));
  clinux_notify(&escalation->question_wake);
}

/* Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_is_answered(const struct cprocess_escalation *escalation) {
  return (atomic_load_explicit(&escalation->question, memory_order_acquire) & CPROCESS_QUESTION_UNANSWERED_MASK) == 0;
}

/* Closes the question. Returns whether a handler has vetoed. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_end_question(struct cprocess_escalation *escalation) {
  uint64_t question =
      atomic_fetch_and_explicit(&escalation->question, ~(UINT64_C(1) << CPROCESS_QUESTION_SHIFT), memory_order_acq_rel);
  return (question & CPROCESS_QUESTION_VETOED) != 0;
}

/* Async-signal-safe: yes. Threads: any. */
static inline uint32_t cprocess_escalation_question(const struct cprocess_escalation *escalation) {
  return cprocess_question_number(atomic_load_explicit(&escalation->question, memory_order_acquire));
}

/* Return the word to wait on, which must be read before checking for a question; wait until the word differs from SEEN.
 * Async-signal-safe: yes. Threads: a handler's. */
static inline uint32_t cprocess_escalation_question_word(const struct cprocess_escalation *escalation) {
  return clinux_word(&escalation->question_wake);
}
static inline void cprocess_escalation_wait_for_question(const struct cprocess_escalation *escalation, uint32_t seen) {
  clinux_wait(&escalation->question_wake, seen, UINT64_MAX);
}

/* Answers question NUMBER for one handler. No effect if that question is closed. Async-signal-safe: yes. Threads: a
 * handler's. */
static inline void cprocess_escalation_answer(struct cprocess_escalation *escalation, uint32_t number, bool vetoes) {
  uint64_t question = atomic_load_explicit(&escalation->question, memory_order_relaxed), next;
  do {
    if (question >> CPROCESS_QUESTION_SHIFT != number || (question & CPROCESS_QUESTION_UNANSWERED_MASK) == 0)
      return;
    next = (question - 1) | (vetoes ? CPROCESS_QUESTION_VETOED : 0);
  } while (!atomic_compare_exchange_weak_explicit(&escalation->question, &question, next, memory_order_release,
                                                  memory_order_relaxed));
  clinux_notify(&escalation->wake);
}

/* Reads the stall that must end the process, and the reason, for which REASON has space for CPROCESS_REASON_BYTES.
 * Returns false if question NUMBER is closed. Async-signal-safe: yes. Threads: a handler's. */
bool cprocess_escalation_read_termination(const struct cprocess_escalation *escalation, uint32_t number,
                                          struct cprocess_termination_request *request, void *reason);

/* Async-signal-safe: yes. Threads: the escalation thread; the blocking worker during a request. */
static inline CLINUX_NO_LOCKS struct cprocess_termination_request *
cprocess_escalation_termination(struct cprocess_escalation *escalation) {
  return &escalation->termination;
}

/* Sets the reason to TEXT, possibly truncated. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_escalation_set_reason(struct cprocess_escalation *escalation, const char *text,
                                                    size_t bytes);

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS struct cprocess_text *
cprocess_escalation_culprit(struct cprocess_escalation *escalation) {
  return &escalation->culprit;
}

/* Sends request NUMBER, neither 0 nor the previous number, to the blocking worker. Async-signal-safe: yes. Threads: the
 * escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_send_request(struct cprocess_escalation *escalation,
                                                                    uint32_t number) {
  atomic_store_explicit(&escalation->request, number, memory_order_release);
  clinux_notify(&escalation->request_wake);
}

/* Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_is_done(const struct cprocess_escalation *escalation,
                                                               uint32_t number) {
  return atomic_load_explicit(&escalation->request_done, memory_order_acquire) == number;
}

/* Waits for a request other than LAST and returns its number, or 0 if the worker must end. Async-signal-safe: yes.
 * Threads: the blocking worker. */
static inline uint32_t cprocess_escalation_next_request(struct cprocess_escalation *escalation, uint32_t last) {
  for (;;) {
    uint32_t seen = clinux_word(&escalation->request_wake);
    if (cprocess_escalation_stopping(escalation))
      return 0;
    uint32_t request = atomic_load_explicit(&escalation->request, memory_order_acquire);
    if (request != 0 && request != last)
      return request;
    clinux_wait(&escalation->request_wake, seen, UINT64_MAX);
  }
}

/* Async-signal-safe: yes. Threads: the blocking worker. */
static inline void cprocess_escalation_done(struct cprocess_escalation *escalation, uint32_t number) {
  atomic_store_explicit(&escalation->request_done, number, memory_order_release);
  clinux_notify(&escalation->wake);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS struct cprocess_text *cprocess_escalation_status(struct cprocess_escalation *escalation) {
  return &escalation->status;
}

/* Stores up to CPROCESS_TEXT_BYTES as the answer to request NUMBER (0: no request). Replaces an unread text. Waits only
 * while another thread is reading. Async-signal-safe: yes. Threads: one at a time. */
void cprocess_text_put(struct cprocess_text *text, uint32_t number, const char *begin, size_t bytes);

/* Takes the stored text. Returns its length in bytes; if not 0, cprocess_text_taken must follow. Async-signal-safe:
 * yes. Threads: one. */
CLINUX_NO_LOCKS size_t cprocess_text_take(struct cprocess_text *text);

/* Ends reading; KEEP keeps the text for the next reading. Async-signal-safe: yes. Threads: the one that took it. */
CLINUX_NO_LOCKS void cprocess_text_taken(struct cprocess_text *text, bool keep);

/* Returns the request that a taken text answers. Async-signal-safe: yes. Threads: the one that took it. */
static inline CLINUX_NO_LOCKS uint32_t cprocess_text_number(const struct cprocess_text *text) { return text->number; }

/* Async-signal-safe: yes. Threads: the one that took it. */
static inline CLINUX_NO_LOCKS const char *cprocess_text_bytes(const struct cprocess_text *text) { return text->text; }

#endif
