/* What the escalation thread, who does something about stalls that do not end, and the rest of the watchdog tell each
 * other. */
#ifndef CPROCESS_ESCALATION_H
#define CPROCESS_ESCALATION_H

#include "clinux_base.h"
#include "clinux_clock.h"
#include "clinux_task.h"
#include "clinux_wait.h"
#include "cprocess_cpu.h"

/* The longest text that is handed over, in bytes. */
enum { CPROCESS_TEXT_BYTES = 1024 };

/* A text that one thread hands to another, which must not wait for it. */
struct cprocess_text {
  _Atomic uint32_t state;
  /* The others belong to who has put STATE to CPROCESS_TEXT_WRITING or CPROCESS_TEXT_READING. */
  uint32_t number; /* what it answers */
  uint32_t bytes;
  char text[CPROCESS_TEXT_BYTES];
};

enum cprocess_text_state {
  CPROCESS_TEXT_NONE = 0,
  CPROCESS_TEXT_WRITING = 1,
  CPROCESS_TEXT_READY = 2,
  CPROCESS_TEXT_READING = 3,
};

/* What somebody wants systemd to be told, as bits. */
enum cprocess_notice {
  CPROCESS_NOTICE_READY = 1,
  CPROCESS_NOTICE_STOPPING = 2,
};

/* A stall that is to end the process. */
struct cprocess_termination_request {
  uint32_t slot;
  uint64_t item;
  uint64_t age_ns;
  uint64_t limit_ns;
  int32_t tid;
  struct cprocess_cpu used; /* since `used.taken_ns`, */
  uint64_t elapsed_ns;      /* which is so long ago */
  uint32_t processors;
  uint64_t thread_ns;         /* what the thread has used since its work item was suspected, */
  uint64_t thread_elapsed_ns; /* which is so long ago; 0 if unknown */
  uint32_t bytes;             /* the reason, for people */
  char reason[2 * CPROCESS_TEXT_BYTES];
};

struct cprocess_escalation {
  _Atomic uint32_t wake; /* the escalation thread waits on it */
  _Atomic uint32_t stop;
  _Atomic uint32_t started;            /* how many of the two threads are at work */
  _Atomic uint32_t notices;            /* enum cprocess_notice, to be sent */
  _Atomic uint32_t request;            /* what the blocking worker is asked for: a number, 0 for nothing; */
  _Atomic uint32_t request_done;       /* the number of the last one that is done */
  _Atomic uint32_t request_wake;       /* the blocking worker waits on it */
  _Atomic int32_t worker_tid;          /* its thread; 0: it has none yet */
  _Atomic uint64_t pings;              /* how often systemd was told that all is well, */
  _Atomic uint64_t pings_withheld;     /* and how often it was not because something hung */
  _Atomic int32_t send_error;          /* errno of the last datagram that could not be sent; 0 */
  _Atomic uint64_t terminate_after_ns; /* the age at which a stall is the end of the process; 0: none is */
  _Atomic uint32_t question_wake;      /* who wants to know of that end, or to prevent it, waits on it */
  _Atomic uint64_t question;           /* what they are asked and have answered; its parts are below */
  _Atomic uint64_t shutdown_ns;        /* when the end of the process began, CLOCK_MONOTONIC; 0: it has not */
  _Atomic uint32_t shutdown_base_set;  /* 1: what had been used then has been noted: */
  struct cprocess_cpu shutdown_base;
  uint64_t shutdown_thread_base; /* by the main thread */
  struct cprocess_termination_request
      termination;              /* the escalation thread's; unchanged while a request or a question is under way */
  struct cprocess_text culprit; /* who is to blame for it, in a phrase */
  struct cprocess_text status;  /* what systemd is to be told of the service's state */
};

/* The parts of a cprocess_escalation's question, from the top: its number, 32 bits, odd while it is asked; whether a
 * handler vetoes the end; how many handlers there are, 15 bits; how many of them have not answered. All in one word, so
 * that a handler knows which questions count it. */
enum { CPROCESS_QUESTION_SHIFT = 32 };
#define CPROCESS_QUESTION_VETOED (UINT64_C(1) << 31)
#define CPROCESS_QUESTION_HANDLER (UINT64_C(1) << 16)
#define CPROCESS_QUESTION_HANDLERS_MASK (CPROCESS_QUESTION_VETOED - CPROCESS_QUESTION_HANDLER)
#define CPROCESS_QUESTION_UNANSWERED_MASK (CPROCESS_QUESTION_HANDLER - 1)

/* Wakes the escalation thread. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_wake(struct cprocess_escalation *escalation) {
  clinux_notify(&escalation->wake);
}

/* The word that the escalation thread waits on, before it looks. Async-signal-safe: yes. Threads: the escalation
 * thread. */
static inline CLINUX_NO_LOCKS uint32_t cprocess_escalation_word(const struct cprocess_escalation *escalation) {
  return clinux_word(&escalation->wake);
}

/* Waits until DEADLINE_NS, or until the word is no longer SEEN. Async-signal-safe: yes. Threads: the escalation thread.
 */
static inline CLINUX_NO_LOCKS void cprocess_escalation_wait(const struct cprocess_escalation *escalation, uint32_t seen,
                                                            uint64_t deadline_ns) {
  clinux_wait(&escalation->wake, seen, deadline_ns);
}

/* Makes the escalation thread, the blocking worker and the handlers' threads end.
 * Async-signal-safe: yes. Threads: any. */
static inline void cprocess_escalation_stop(struct cprocess_escalation *escalation) {
  atomic_store_explicit(&escalation->stop, 1, memory_order_release);
  clinux_notify(&escalation->wake);
  clinux_notify(&escalation->request_wake);
  clinux_notify(&escalation->question_wake);
}

/* Whether they are to end. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_stopping(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->stop, memory_order_acquire) != 0;
}

/* The calling thread, the escalation thread or the blocking worker, has what it needs.
 * Async-signal-safe: yes. Threads: these two. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_start(struct cprocess_escalation *escalation) {
  atomic_fetch_add_explicit(&escalation->started, 1, memory_order_release);
}

/* The calling thread is the blocking worker. Async-signal-safe: yes. Threads: the blocking worker. */
static inline void cprocess_escalation_set_worker(struct cprocess_escalation *escalation) {
  atomic_store_explicit(&escalation->worker_tid, clinux_task_self(), memory_order_release);
}

/* How long the blocking worker has been on a processor; 0 when there is none. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t cprocess_escalation_worker_cpu_ns(const struct cprocess_escalation *escalation) {
  int32_t tid = atomic_load_explicit(&escalation->worker_tid, memory_order_acquire);
  return tid == 0 ? 0 : clinux_clock_thread_cpu_ns(tid);
}

/* How many of them have. Async-signal-safe: yes. Threads: any. */
static inline uint32_t cprocess_escalation_started(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->started, memory_order_acquire);
}

/* Asks that systemd be told NOTICES. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_add_notices(struct cprocess_escalation *escalation,
                                                                   uint32_t notices) {
  atomic_fetch_or_explicit(&escalation->notices, notices, memory_order_release);
  clinux_notify(&escalation->wake);
}

/* What systemd is to be told. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS uint32_t cprocess_escalation_notices(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->notices, memory_order_acquire);
}

/* It has been told NOTICES. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_remove_notices(struct cprocess_escalation *escalation,
                                                                      uint32_t notices) {
  atomic_fetch_and_explicit(&escalation->notices, ~notices, memory_order_relaxed);
}

/* Counts a ping that was sent or withheld. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_count_ping(struct cprocess_escalation *escalation, bool sent) {
  atomic_fetch_add_explicit(sent ? &escalation->pings : &escalation->pings_withheld, 1, memory_order_relaxed);
}

/* How often that was. Async-signal-safe: yes. Threads: any. */
static inline uint64_t cprocess_escalation_pings(const struct cprocess_escalation *escalation, bool sent) {
  return atomic_load_explicit(sent ? &escalation->pings : &escalation->pings_withheld, memory_order_relaxed);
}

/* The error of the last datagram that could not be sent. Async-signal-safe: yes. Threads: any. */
static inline int32_t cprocess_escalation_send_error(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->send_error, memory_order_relaxed);
}
static inline CLINUX_NO_LOCKS void cprocess_escalation_set_send_error(struct cprocess_escalation *escalation,
                                                                      int32_t error) {
  atomic_store_explicit(&escalation->send_error, error, memory_order_relaxed);
}

/* The age at which a stall is the end of the process; 0: none is. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t
cprocess_escalation_terminate_after_ns(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->terminate_after_ns, memory_order_relaxed);
}
static inline void cprocess_escalation_set_terminate_after_ns(struct cprocess_escalation *escalation,
                                                              uint64_t after_ns) {
  atomic_store_explicit(&escalation->terminate_after_ns, after_ns, memory_order_relaxed);
  clinux_notify(&escalation->wake);
}

/* The process is about to end, since TIME_NS. Only the first call counts. Async-signal-safe: yes. Threads: any. */
static inline void cprocess_escalation_begin_shutdown(struct cprocess_escalation *escalation, uint64_t time_ns) {
  uint64_t none = 0;
  atomic_compare_exchange_strong_explicit(&escalation->shutdown_ns, &none, time_ns, memory_order_release,
                                          memory_order_relaxed);
  clinux_notify(&escalation->wake);
}

/* Since when; 0 when it is not. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t cprocess_escalation_shutdown_ns(const struct cprocess_escalation *escalation) {
  return atomic_load_explicit(&escalation->shutdown_ns, memory_order_acquire);
}

/* Notes what had been used when it began, in all and by the main thread. Async-signal-safe: yes. Threads: the
 * escalation thread.
 */
static inline CLINUX_NO_LOCKS void cprocess_escalation_note_shutdown(struct cprocess_escalation *escalation,
                                                                     struct cprocess_cpu base, uint64_t thread_ns) {
  escalation->shutdown_base = base;
  escalation->shutdown_thread_base = thread_ns;
  atomic_store_explicit(&escalation->shutdown_base_set, 1, memory_order_release);
}

/* That, if it has been noted. Async-signal-safe: yes. Threads: any. */
static inline bool cprocess_escalation_shutdown_base(const struct cprocess_escalation *escalation,
                                                     struct cprocess_cpu *base, uint64_t *thread_ns) {
  if (!atomic_load_explicit(&escalation->shutdown_base_set, memory_order_acquire))
    return false;
  *base = escalation->shutdown_base;
  *thread_ns = escalation->shutdown_thread_base;
  return true;
}

/* The number of what is being asked in QUESTION, 0 for nothing. */
static inline uint32_t cprocess_question_number(uint64_t question) {
  uint32_t number = (uint32_t)(question >> CPROCESS_QUESTION_SHIFT);
  return (number & 1) != 0 ? number : 0;
}

/* One more handler wants to know of the end, or one less. Returns the number of what is being asked, 0 for nothing: a
 * new one has no part in that, and one that leaves has still to answer it. Questions that come later count the new one
 * and not the one that leaves. Async-signal-safe: yes. Threads: any. */
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

/* Asks the handlers. Async-signal-safe: yes. Threads: the escalation thread. */
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

/* Whether all have answered. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_is_answered(const struct cprocess_escalation *escalation) {
  return (atomic_load_explicit(&escalation->question, memory_order_acquire) & CPROCESS_QUESTION_UNANSWERED_MASK) == 0;
}

/* Asks no more. Returns whether a handler vetoes the end. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_end_question(struct cprocess_escalation *escalation) {
  uint64_t question =
      atomic_fetch_and_explicit(&escalation->question, ~(UINT64_C(1) << CPROCESS_QUESTION_SHIFT), memory_order_acq_rel);
  return (question & CPROCESS_QUESTION_VETOED) != 0;
}

/* The number of what is being asked, 0 for nothing. Async-signal-safe: yes. Threads: any. */
static inline uint32_t cprocess_escalation_question(const struct cprocess_escalation *escalation) {
  return cprocess_question_number(atomic_load_explicit(&escalation->question, memory_order_acquire));
}

/* The word that a handler's thread waits on, before it looks whether something is asked; and waits while it is SEEN.
 * Async-signal-safe: yes. Threads: a handler's. */
static inline uint32_t cprocess_escalation_question_word(const struct cprocess_escalation *escalation) {
  return clinux_word(&escalation->question_wake);
}
static inline void cprocess_escalation_wait_for_question(const struct cprocess_escalation *escalation, uint32_t seen) {
  clinux_wait(&escalation->question_wake, seen, UINT64_MAX);
}

/* Answers question NUMBER for one handler, which it counts. Does nothing when that is not being asked any more.
 * Async-signal-safe: yes. Threads: a handler's. */
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

/* What the end is about, if question NUMBER is still being asked. Async-signal-safe: yes. Threads: a handler's. */
bool cprocess_escalation_read_termination(const struct cprocess_escalation *escalation, uint32_t number,
                                          struct cprocess_termination_request *request);

/* What the end is about. Async-signal-safe: yes. Threads: the escalation thread; the blocking worker during a request.
 */
static inline CLINUX_NO_LOCKS struct cprocess_termination_request *
cprocess_escalation_termination(struct cprocess_escalation *escalation) {
  return &escalation->termination;
}

/* Sets its reason to the BYTES bytes of TEXT. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_escalation_set_reason(struct cprocess_escalation *escalation, const char *text,
                                                    size_t bytes);

/* Who is to blame. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS struct cprocess_text *
cprocess_escalation_culprit(struct cprocess_escalation *escalation) {
  return &escalation->culprit;
}

/* Asks the blocking worker for request NUMBER, which is not 0 and not that of the request before.
 * Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS void cprocess_escalation_send_request(struct cprocess_escalation *escalation,
                                                                    uint32_t number) {
  atomic_store_explicit(&escalation->request, number, memory_order_release);
  clinux_notify(&escalation->request_wake);
}

/* Whether request NUMBER is done. Async-signal-safe: yes. Threads: the escalation thread. */
static inline CLINUX_NO_LOCKS bool cprocess_escalation_is_done(const struct cprocess_escalation *escalation,
                                                               uint32_t number) {
  return atomic_load_explicit(&escalation->request_done, memory_order_acquire) == number;
}

/* Waits for a request other than LAST. Returns its number, 0 when there will be none any more.
 * Async-signal-safe: yes. Threads: the blocking worker. */
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

/* Says that request NUMBER is done. Async-signal-safe: yes. Threads: the blocking worker. */
static inline void cprocess_escalation_done(struct cprocess_escalation *escalation, uint32_t number) {
  atomic_store_explicit(&escalation->request_done, number, memory_order_release);
  clinux_notify(&escalation->wake);
}

/* What systemd is to be told of the service's state. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS struct cprocess_text *cprocess_escalation_status(struct cprocess_escalation *escalation) {
  return &escalation->status;
}

/* Hands over the BYTES bytes at BEGIN, of which CPROCESS_TEXT_BYTES are kept, as the answer to NUMBER, 0 where nobody
 * has asked; replaces what has not been read yet. Waits only for a reader that is just sending. Async-signal-safe: yes.
 * Threads: one at a time. */
void cprocess_text_put(struct cprocess_text *text, uint32_t number, const char *begin, size_t bytes);

/* Takes what was handed over: returns how many bytes there are in TEXT's text, 0 for nothing. When not 0,
 * cprocess_text_taken must follow.
 * Async-signal-safe: yes. Threads: one. */
CLINUX_NO_LOCKS size_t cprocess_text_take(struct cprocess_text *text);

/* Ends reading; KEEP leaves the text there for the next time. Async-signal-safe: yes. Threads: who took it. */
CLINUX_NO_LOCKS void cprocess_text_taken(struct cprocess_text *text, bool keep);

/* What a text that was taken answers. Async-signal-safe: yes. Threads: who took it. */
static inline CLINUX_NO_LOCKS uint32_t cprocess_text_number(const struct cprocess_text *text) { return text->number; }

/* The bytes of a text that was taken. Async-signal-safe: yes. Threads: who took it. */
static inline CLINUX_NO_LOCKS const char *cprocess_text_bytes(const struct cprocess_text *text) { return text->text; }

#endif
