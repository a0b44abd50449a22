#define _GNU_SOURCE
#include "clinux_fork.h"

#include "clinux_clock.h"
#include "clinux_process.h"
#include "clinux_wait.h"

#include <pthread.h>

/* Parts of WORD. WORKS: the thread works. AWAITED: a forking thread waits until the thread rests. From CHANGE up:
 * number of changes. */
enum { WORKS = 1, AWAITED = 2, CHANGE = 4 };

struct place {
  _Atomic uint32_t process; /* stamp of the owning thread's process; 0: free */
  _Atomic uint32_t word;
  _Atomic uint32_t given_up;
};

static struct place places[CLINUX_FORK_PLACES_MAX];
static _Atomic uint32_t places_used;
_Thread_local bool clinux_fork_takes_part __attribute__((tls_model("initial-exec"))) = false;
static _Thread_local struct place *own_place __attribute__((tls_model("initial-exec")));
static _Thread_local uint32_t own_process __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t works_until_ns __attribute__((tls_model("initial-exec")));

/* Low bits: number of forking threads. High bits: part of their process's stamp, because a child must not wait for the
 * parent's forks. */
static _Atomic uint32_t forks;
static _Atomic uint64_t forks_since_ns;
enum { STAMP_SHIFT = 16, COUNT_MASK = 0xffff };

static _Atomic uint32_t impatient_count;

static uint32_t stamp_part(void) { return clinux_process_stamp() << STAMP_SHIFT; }

static uint64_t forking_until_ns(uint32_t word) {
  if ((word & COUNT_MASK) == 0 || (word & ~(uint32_t)COUNT_MASK) != stamp_part())
    return 0;
  uint64_t end_ns = atomic_load_explicit(&forks_since_ns, memory_order_relaxed) + CLINUX_FORK_STAY_NS;
  uint64_t now_ns = clinux_clock_ns();
  return now_ns >= works_until_ns && now_ns < end_ns ? end_ns : 0;
}

static struct place *place_of_thread(void) {
  if (own_place && !clinux_process_is(own_process)) {
    /* Another thread of the child might own the entry by now. */
    own_place = NULL;
    clinux_fork_takes_part = false;
  }
  return own_place;
}

static bool works(const struct place *place) {
  return (atomic_load_explicit(&place->word, memory_order_relaxed) & WORKS) != 0;
}

static void rest(struct place *place) {
  uint32_t word = atomic_load_explicit(&place->word, memory_order_relaxed);
  uint32_t resting = (word & ~(uint32_t)(WORKS | AWAITED)) + CHANGE;
  if (atomic_exchange_explicit(&place->word, resting, memory_order_seq_cst) & AWAITED)
    clinux_wake(&place->word);
}

static void work(struct place *place) {
  uint64_t patience_end_ns = 0;
  while (true) {
    uint32_t word = atomic_load_explicit(&place->word, memory_order_relaxed);
    atomic_store_explicit(&place->word, (word & ~(uint32_t)AWAITED) + CHANGE + WORKS, memory_order_seq_cst);
    uint32_t seen = atomic_load_explicit(&forks, memory_order_seq_cst);
    uint64_t end_ns = forking_until_ns(seen);
    if (end_ns == 0)
      return;
    uint64_t now_ns = clinux_clock_ns();
    if (patience_end_ns == 0)
      patience_end_ns = now_ns + CLINUX_FORK_STAY_NS;
    if (now_ns >= patience_end_ns) {
      works_until_ns = now_ns + CLINUX_FORK_STAY_NS;
      return;
    }
    rest(place);
    clinux_wait(&forks, seen, end_ns < patience_end_ns ? end_ns : patience_end_ns);
  }
}

void clinux_fork_enter(void) {
  uint32_t mine = clinux_process_stamp();
  for (uint32_t number = 0; number < CLINUX_FORK_PLACES_MAX; number++) {
    struct place *place = &places[number];
    uint32_t process = atomic_load_explicit(&place->process, memory_order_relaxed);
    if (process == mine || !atomic_compare_exchange_strong_explicit(&place->process, &process, mine,
                                                                    memory_order_acquire, memory_order_relaxed))
      continue;
    uint32_t used = atomic_load_explicit(&places_used, memory_order_relaxed);
    while (used <= number && !atomic_compare_exchange_weak_explicit(&places_used, &used, number + 1,
                                                                    memory_order_seq_cst, memory_order_relaxed))
      continue;
    own_place = place;
    own_process = mine;
    works_until_ns = 0;
    clinux_fork_takes_part = true;
    /* The entry might still be marked as working by a thread of the parent. */
    rest(place);
    work(place);
    return;
  }
}

void clinux_fork_leave(void) {
  struct place *place = place_of_thread();
  if (!place)
    return;
  rest(place);
  own_place = NULL;
  clinux_fork_takes_part = false;
  atomic_store_explicit(&place->process, 0, memory_order_release);
}

bool clinux_fork_rest(void) {
  struct place *place = place_of_thread();
  if (!place || !works(place))
    return false;
  rest(place);
  return true;
}

bool clinux_fork_work(void) {
  struct place *place = place_of_thread();
  if (!place || works(place))
    return false;
  work(place);
  return true;
}

void clinux_fork_let_ahead(void) {
  struct place *place = place_of_thread();
  if (!place || !works(place))
    return;
  /* If a fork has given up waiting for this thread, later forks wait for it again only after it has rested. */
  uint32_t given_up = atomic_load_explicit(&place->given_up, memory_order_relaxed);
  bool is_given_up = given_up == (atomic_load_explicit(&place->word, memory_order_relaxed) & ~(uint32_t)AWAITED);
  if (!is_given_up && forking_until_ns(atomic_load_explicit(&forks, memory_order_relaxed)) == 0)
    return;
  rest(place);
  work(place);
}

uint32_t clinux_fork_impatient_count(void) { return atomic_load_explicit(&impatient_count, memory_order_relaxed); }

static void wait_for_rest(struct place *place, uint64_t deadline_ns) {
  uint32_t word = atomic_load_explicit(&place->word, memory_order_seq_cst);
  uint32_t change = word & ~(uint32_t)AWAITED;
  if ((word & WORKS) == 0)
    return;
  if (atomic_load_explicit(&place->given_up, memory_order_relaxed) == change)
    deadline_ns = 0;
  while ((word & ~(uint32_t)AWAITED) == change) {
    if (clinux_clock_ns() >= deadline_ns) {
      atomic_store_explicit(&place->given_up, change, memory_order_relaxed);
      atomic_fetch_add_explicit(&impatient_count, 1, memory_order_relaxed);
      return;
    }
    if ((word & AWAITED) != 0 || atomic_compare_exchange_strong_explicit(&place->word, &word, change | AWAITED,
                                                                         memory_order_seq_cst, memory_order_seq_cst))
      clinux_wait(&place->word, change | AWAITED, deadline_ns);
    word = atomic_load_explicit(&place->word, memory_order_seq_cst);
  }
}

static void prepare(void) {
  /* Must be set before FORKS counts this fork. */
  atomic_store_explicit(&forks_since_ns, clinux_clock_ns(), memory_order_relaxed);
  uint32_t mine = stamp_part(), word = atomic_load_explicit(&forks, memory_order_relaxed), more;
  do
    more = (word & ~(uint32_t)COUNT_MASK) == mine ? word + 1 : mine + 1;
  while (!atomic_compare_exchange_weak_explicit(&forks, &word, more, memory_order_seq_cst, memory_order_relaxed));
  uint32_t process = clinux_process_stamp(), used = atomic_load_explicit(&places_used, memory_order_seq_cst);
  const struct place *own = place_of_thread();
  uint64_t deadline_ns = 0;
  for (uint32_t number = 0; number < used; number++) {
    struct place *place = &places[number];
    if (place == own || atomic_load_explicit(&place->process, memory_order_relaxed) != process)
      continue;
    if (deadline_ns == 0)
      deadline_ns = clinux_clock_ns() + CLINUX_FORK_PATIENCE_NS;
    wait_for_rest(place, deadline_ns);
  }
}

static void end(void) {
  atomic_fetch_sub_explicit(&forks, 1, memory_order_seq_cst);
  clinux_wake(&forks);
}

static void guard(void) { pthread_atfork(prepare, end, NULL); }

void clinux_fork_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, guard);
}
