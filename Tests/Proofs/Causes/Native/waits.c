#define _GNU_SOURCE
#include "cause_work.h"
#include "processes.h"
#include "threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static sem_t shipment;

static void *ship(void *argument) {
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  sem_post(&shipment);
  return NULL;
}

void begin_shipment(unsigned milliseconds) {
  sem_init(&shipment, 0, 0);
  cause_thread("shipping", ship, milliseconds);
}

NOT_INLINED void await_shipment(void) {
  while (sem_wait(&shipment) != 0)
    ;
  cause_sink += 1;
}

static pthread_mutex_t paying = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_paid = PTHREAD_COND_INITIALIZER;
static int payments;

static void *pay(void *argument) {
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  pthread_mutex_lock(&paying);
  payments += 1;
  pthread_cond_signal(&is_paid);
  pthread_mutex_unlock(&paying);
  return NULL;
}

void begin_payment(unsigned milliseconds) { cause_thread("customer", pay, milliseconds); }

NOT_INLINED void await_payment(void) {
  pthread_mutex_lock(&paying);
  while (payments == 0)
    pthread_cond_wait(&is_paid, &paying);
  pthread_mutex_unlock(&paying);
  cause_sink += 1;
}

static int notices;

static void *give_notice(void *argument) {
  uint64_t one = 1;
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  cause_ignore(write(notices, &one, sizeof one));
  return NULL;
}

void begin_notice(unsigned milliseconds) {
  notices = eventfd(0, EFD_CLOEXEC);
  cause_thread("notices", give_notice, milliseconds);
}

NOT_INLINED void await_notice(void) {
  uint64_t count = 0;
  cause_ignore(read(notices, &count, sizeof count));
  cause_sink += count;
}

/* Signals by a busy thread. */

static sem_t forecast;

NOT_INLINED static void simulate_weather(unsigned milliseconds) {
  uint64_t end = cause_now() + milliseconds * 1000000ull, value = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 5000; i++)
      value = value * 2862933555777941757u + 3037000493u;
  }
  cause_sink += value;
}

static void *make_forecast(void *argument) {
  cause_begun();
  cause_lower_priority(19);
  simulate_weather(cause_argument(argument));
  sem_post(&forecast);
  return NULL;
}

void begin_forecast(unsigned milliseconds) {
  sem_init(&forecast, 0, 0);
  cause_thread("weather", make_forecast, milliseconds);
}

NOT_INLINED void await_forecast(void) {
  while (sem_wait(&forecast) != 0)
    ;
  cause_sink += 2;
}

/* Ends of threads. */

static pthread_t importer;

NOT_INLINED static void import_catalogue(unsigned milliseconds) {
  usleep(milliseconds * 1000);
  cause_sink += 3;
}

static void *import(void *argument) {
  cause_begun();
  import_catalogue(cause_argument(argument));
  return NULL;
}

void begin_import(unsigned milliseconds) { importer = cause_thread("importer", import, milliseconds); }

NOT_INLINED void await_import(void) {
  pthread_join(importer, NULL);
  cause_sink += 1;
}

/* One-time initialization. */

static pthread_once_t has_currencies = PTHREAD_ONCE_INIT;
static unsigned currency_milliseconds;

static void load_currency_table(void) {
  cause_begun();
  usleep(currency_milliseconds * 1000);
  cause_sink += 5;
}

static void *load_currencies(void *argument) {
  currency_milliseconds = cause_argument(argument);
  pthread_once(&has_currencies, load_currency_table);
  return NULL;
}

void begin_currency_table(unsigned milliseconds) { cause_thread("currencies", load_currencies, milliseconds); }

NOT_INLINED void show_currency(void) {
  pthread_once(&has_currencies, load_currency_table);
  cause_sink += 1;
}

/* The loader. */

static int inspect_module(struct dl_phdr_info *module, size_t size, void *milliseconds) {
  (void)module, (void)size;
  cause_begun();
  usleep(cause_argument(milliseconds) * 1000);
  return 1;
}

static void *inspect_modules(void *argument) {
  dl_iterate_phdr(inspect_module, argument);
  return NULL;
}

void begin_listing_modules(unsigned milliseconds) { cause_thread("inspector", inspect_modules, milliseconds); }

NOT_INLINED void open_plugin(void) {
  /* A library of every glibc that is not loaded yet. Opening it changes the list of modules. */
  void *plugin = dlopen("libBrokenLocale.so.1", RTLD_NOW);
  cause_sink += plugin != NULL;
}

static const char *driver;

static void *load_driver(void *argument) {
  (void)argument;
  cause_begun();
  /* The pipe is no library: dlopen fails once the pipe has data. */
  if (dlopen(driver, RTLD_NOW) != NULL)
    cause_sink += 1;
  return NULL;
}

static void *feed_driver(void *argument) {
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  int file = open(driver, O_WRONLY | O_CLOEXEC);
  cause_ignore(write(file, "x", 1));
  close(file);
  return NULL;
}

void begin_loading_driver(const char *path, unsigned milliseconds) {
  driver = path;
  cause_thread("feeder", feed_driver, milliseconds + 200);
  cause_thread("loader", load_driver, 0);
  /* Waits until the loading thread has the loader's lock. */
  usleep(200000);
}

NOT_INLINED void find_entry_point(void) { cause_sink += dlsym(RTLD_DEFAULT, "shop_entry_point") == NULL; }

/* Sleeping. */

NOT_INLINED void throttle_requests(uint64_t end) {
  while (cause_now() < end)
    usleep(100000);
  cause_sink += 1;
}

NOT_INLINED void await_tick(unsigned milliseconds) {
  struct itimerspec once = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000000L}};
  uint64_t count = 0;
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  timerfd_settime(timer, 0, &once, NULL);
  cause_ignore(read(timer, &count, sizeof count));
  close(timer);
  cause_sink += count;
}

NOT_INLINED void poll_nothing_new(unsigned milliseconds) {
  poll(NULL, 0, (int)milliseconds);
  cause_sink += 1;
}

/* Waits for a signal for seven tenths of the time, then for a lock. */

static pthread_mutex_t hall = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_sold;

NOT_INLINED static void count_bids(unsigned milliseconds) {
  usleep(milliseconds * 1000);
  cause_sink += 6;
}

static void *hold_auction(void *argument) {
  unsigned milliseconds = cause_argument(argument);
  pthread_mutex_lock(&hall);
  cause_begun();
  usleep(milliseconds * 700);
  sem_post(&is_sold);
  count_bids(milliseconds * 3 / 10);
  pthread_mutex_unlock(&hall);
  return NULL;
}

void begin_auction(unsigned milliseconds) {
  sem_init(&is_sold, 0, 0);
  cause_thread("auction", hold_auction, milliseconds);
}

NOT_INLINED void close_auction(void) {
  while (sem_wait(&is_sold) != 0)
    ;
  cause_sink += 1;
  pthread_mutex_lock(&hall);
  cause_sink += 1;
  pthread_mutex_unlock(&hall);
}
