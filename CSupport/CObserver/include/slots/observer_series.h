/* Counters of a source, for metrics. They use no locks and only grow. A reader might see a latency in its bucket before
 * the sum includes it. */
#ifndef OBSERVER_SERIES_H
#define OBSERVER_SERIES_H

#include "base/observer_base.h"

/* Number of buckets with an upper bound; one more bucket holds times above the highest bound. */
enum { OBSERVER_HISTOGRAM_BOUNDS = 22 };

/* Returns the upper bound of BUCKET in nanoseconds, 100 µs to 1,000 s; UINT64_MAX for the last. Async-signal-safe: yes.
 * Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_histogram_bound(uint32_t bucket) {
  static const uint64_t bounds[OBSERVER_HISTOGRAM_BOUNDS] = {
      100000,      250000,      500000,       1000000,      2500000,      5000000,       10000000,   25000000,
      50000000,    100000000,   250000000,    500000000,    1000000000,   2500000000,    5000000000, 10000000000,
      25000000000, 50000000000, 100000000000, 250000000000, 500000000000, 1000000000000,
  };
  return bucket < OBSERVER_HISTOGRAM_BOUNDS ? bounds[bucket] : UINT64_MAX;
}

struct observer_histogram {
  _Atomic uint64_t counts[OBSERVER_HISTOGRAM_BOUNDS + 1]; /* not cumulative */
  _Atomic uint64_t sum_ns;
};

struct observer_series {
  struct observer_histogram latencies; /* from enqueueing to running a probe */
  struct observer_histogram durations; /* of ended stalls */
  _Atomic uint64_t stalls;
  _Atomic uint64_t hangs;
  _Atomic uint64_t samples;      /* of late work */
  _Atomic uint64_t samples_lost; /* due, but not taken or kept */
  _Atomic uint64_t unused[4];    /* fills the cache line */
};

_Static_assert(sizeof(struct observer_series) % 64 == 0, "two series that are aligned to 64 bytes share no cache line");

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void observer_count(_Atomic uint64_t *word, uint64_t count) {
  atomic_fetch_add_explicit(word, count, memory_order_relaxed);
}
static inline CLINUX_NO_LOCKS uint64_t observer_counted(const _Atomic uint64_t *word) {
  return atomic_load_explicit(word, memory_order_relaxed);
}

/* Returns the first bucket whose bound is not less than TIME_NS. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_histogram_bucket(uint64_t time_ns) {
  uint32_t bucket = 0;
  while (time_ns > observer_histogram_bound(bucket))
    bucket++;
  return bucket;
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void observer_histogram_add(struct observer_histogram *histogram, uint64_t time_ns) {
  observer_count(&histogram->counts[observer_histogram_bucket(time_ns)], 1);
  observer_count(&histogram->sum_ns, time_ns);
}
static inline CLINUX_NO_LOCKS uint64_t observer_histogram_sum_ns(const struct observer_histogram *histogram) {
  return observer_counted(&histogram->sum_ns);
}
static inline CLINUX_NO_LOCKS uint64_t observer_histogram_count(const struct observer_histogram *histogram,
                                                                uint32_t bucket) {
  return bucket <= OBSERVER_HISTOGRAM_BOUNDS ? observer_counted(&histogram->counts[bucket]) : 0;
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void observer_series_probe(struct observer_series *series, uint64_t latency_ns) {
  observer_histogram_add(&series->latencies, latency_ns);
}
static inline CLINUX_NO_LOCKS void observer_series_stall_ended(struct observer_series *series, uint64_t duration_ns) {
  observer_histogram_add(&series->durations, duration_ns);
}
static inline CLINUX_NO_LOCKS void observer_series_stall_began(struct observer_series *series) {
  observer_count(&series->stalls, 1);
}
static inline CLINUX_NO_LOCKS void observer_series_hang(struct observer_series *series) {
  observer_count(&series->hangs, 1);
}
static inline CLINUX_NO_LOCKS void observer_series_sample(struct observer_series *series) {
  observer_count(&series->samples, 1);
}
static inline CLINUX_NO_LOCKS void observer_series_lose(struct observer_series *series, uint64_t count) {
  observer_count(&series->samples_lost, count);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS const struct observer_histogram *
observer_series_latencies(const struct observer_series *series) {
  return &series->latencies;
}
static inline CLINUX_NO_LOCKS const struct observer_histogram *
observer_series_durations(const struct observer_series *series) {
  return &series->durations;
}

struct observer_series_counts {
  uint64_t stalls, hangs, samples, samples_lost;
};
static inline CLINUX_NO_LOCKS struct observer_series_counts observer_series_read(const struct observer_series *series) {
  struct observer_series_counts counts = {
      .stalls = observer_counted(&series->stalls),
      .hangs = observer_counted(&series->hangs),
      .samples = observer_counted(&series->samples),
      .samples_lost = observer_counted(&series->samples_lost),
  };
  return counts;
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_series_is_empty(const struct observer_series *series) {
  uint64_t found = observer_counted(&series->stalls) | observer_counted(&series->hangs) |
                   observer_counted(&series->samples) | observer_counted(&series->samples_lost);
  for (uint32_t bucket = 0; bucket <= OBSERVER_HISTOGRAM_BOUNDS; bucket++)
    found |=
        observer_histogram_count(&series->latencies, bucket) | observer_histogram_count(&series->durations, bucket);
  return found == 0;
}

#endif
