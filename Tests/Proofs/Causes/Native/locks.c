#define _GNU_SOURCE
#include "cause_work.h"
#include "processes.h"
#include "threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;

NOT_INLINED static void rebuild_ledger(unsigned milliseconds) {
  usleep(milliseconds * 1000);
  cause_sink += 1;
}

static void *keep_ledger(void *argument) {
  pthread_mutex_lock(&ledger);
  cause_begun();
  rebuild_ledger(cause_argument(argument));
  pthread_mutex_unlock(&ledger);
  return NULL;
}

void hold_ledger(unsigned milliseconds) { cause_thread("keeper", keep_ledger, milliseconds); }

NOT_INLINED void book_payment(void) {
  pthread_mutex_lock(&ledger);
  cause_sink += 1;
  pthread_mutex_unlock(&ledger);
}

static pthread_rwlock_t prices = PTHREAD_RWLOCK_INITIALIZER;

NOT_INLINED static void reload_prices(unsigned milliseconds) {
  usleep(milliseconds * 1000);
  cause_sink += 2;
}

static void *keep_prices(void *argument) {
  pthread_rwlock_wrlock(&prices);
  cause_begun();
  reload_prices(cause_argument(argument));
  pthread_rwlock_unlock(&prices);
  return NULL;
}

void hold_prices(unsigned milliseconds) { cause_thread("keeper", keep_prices, milliseconds); }

NOT_INLINED void read_prices(void) {
  pthread_rwlock_rdlock(&prices);
  cause_sink += 1;
  pthread_rwlock_unlock(&prices);
}

static FILE *log_stream;

NOT_INLINED static void rotate_log(unsigned milliseconds) {
  usleep(milliseconds * 1000);
  cause_sink += 3;
}

static void *keep_log(void *argument) {
  flockfile(log_stream);
  cause_begun();
  rotate_log(cause_argument(argument));
  funlockfile(log_stream);
  return NULL;
}

void hold_log(unsigned milliseconds) {
  log_stream = fopen("/dev/null", "w");
  cause_thread("keeper", keep_log, milliseconds);
}

NOT_INLINED void write_log_line(void) {
  fputs("GET /orders 200\n", log_stream);
  cause_sink += 1;
}

/* Children that hold file locks. */

NOT_INLINED void lock_spool_file(const char *path) {
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (flock(file, LOCK_EX) == 0)
    cause_sink += 1;
  close(file);
}

static void lock_whole(int file) { flock(file, LOCK_EX); }

static void lock_record(int file) {
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  fcntl(file, F_OFD_SETLKW, &all);
}

/* Starts a child that holds the lock that LOCK takes on the file PATH. */
static pid_t hold_in_child(const char *path, void (*lock)(int), unsigned milliseconds) {
  int ready[2];
  char byte;
  if (pipe(ready) != 0)
    return -1;
  pid_t child = cause_fork();
  if (child == 0) {
    lock(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    cause_ignore(write(ready[1], "x", 1));
    usleep(milliseconds * 1000);
    _exit(0);
  }
  close(ready[1]);
  cause_ignore(read(ready[0], &byte, 1));
  close(ready[0]);
  return child;
}

pid_t hold_spool_file(const char *path, unsigned milliseconds) { return hold_in_child(path, lock_whole, milliseconds); }

NOT_INLINED void lock_invoice_number(const char *path) {
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fcntl(file, F_OFD_SETLKW, &all) == 0)
    cause_sink += 1;
  close(file);
}

pid_t hold_invoice_number(const char *path, unsigned milliseconds) {
  return hold_in_child(path, lock_record, milliseconds);
}

/* Functions of SQLite, loaded by dlopen(3) because the header might be missing. */
static struct {
  int (*open)(const char *, void **);
  int (*set_patience)(void *, int);
  int (*run)(void *, const char *, void *, void *, void *);
  int (*close)(void *);
} sqlite;

bool cause_open_database(void) {
  void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
  if (library == NULL)
    return false;
  sqlite.open = (int (*)(const char *, void **))dlsym(library, "sqlite3_open");
  sqlite.set_patience = (int (*)(void *, int))dlsym(library, "sqlite3_busy_timeout");
  sqlite.run = (int (*)(void *, const char *, void *, void *, void *))dlsym(library, "sqlite3_exec");
  sqlite.close = (int (*)(void *))dlsym(library, "sqlite3_close");
  return sqlite.open != NULL && sqlite.set_patience != NULL && sqlite.run != NULL && sqlite.close != NULL;
}

/* Locks a database for writing, like SQLite (sqlite.org/lockingv3.html). */
static void lock_database(int file) {
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000000, .l_len = 512};
  fcntl(file, F_SETLK, &all);
}

pid_t hold_database(const char *path, unsigned milliseconds) {
  return hold_in_child(path, lock_database, milliseconds);
}

NOT_INLINED void store_sale(const char *path) {
  void *database = NULL;
  if (sqlite.open(path, &database) != 0)
    return;
  sqlite.set_patience(database, 60000);
  cause_sink += (uint64_t)sqlite.run(database, "CREATE TABLE sale(price)", NULL, NULL, NULL);
  sqlite.close(database);
}

/* Many threads that each hold the lock briefly. */

static pthread_mutex_t seats = PTHREAD_MUTEX_INITIALIZER;
static uint64_t closing_time;

NOT_INLINED static void serve_customer(void) {
  usleep(100000);
  cause_sink += 4;
}

static void *serve(void *argument) {
  (void)argument;
  cause_begun();
  while (cause_now() < closing_time) {
    pthread_mutex_lock(&seats);
    serve_customer();
    pthread_mutex_unlock(&seats);
    /* Mutexes are not fair: without a pause, this thread would lock seats again before a woken waiter runs. */
    usleep(1000);
  }
  return NULL;
}

void begin_serving(unsigned threads, uint64_t end) {
  closing_time = end;
  for (unsigned i = 0; i < threads; i++)
    cause_thread("server", serve, 0);
}

NOT_INLINED void book_seats(uint64_t end) {
  while (cause_now() < end) {
    pthread_mutex_lock(&seats);
    cause_sink += 1;
    pthread_mutex_unlock(&seats);
  }
}

/* Deadlocks. */

/* Orders the addresses: reports of a deadlock start at the lock with the lowest address. */
static struct { pthread_mutex_t shelf, store; } goods = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

NOT_INLINED static void return_goods(void) {
  pthread_mutex_lock(&goods.shelf);
  cause_sink += 1;
}

static void *returning(void *argument) {
  (void)argument;
  pthread_mutex_lock(&goods.store);
  cause_begun();
  return_goods();
  return NULL;
}

void begin_returning_goods(void) {
  pthread_mutex_lock(&goods.shelf);
  cause_thread("returns", returning, 0);
}

NOT_INLINED void transfer_stock(void) {
  pthread_mutex_lock(&goods.store);
  cause_sink += 2;
}

static pthread_mutex_t docks[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static sem_t docked;

NOT_INLINED static void leave_dock(unsigned number) {
  pthread_mutex_lock(&docks[(number + 1) % 3]);
  cause_sink += 3;
}

static void *deliver_at_dock(void *argument) {
  unsigned number = cause_argument(argument);
  pthread_mutex_lock(&docks[number]);
  cause_begun();
  sem_wait(&docked);
  leave_dock(number);
  return NULL;
}

void begin_three_deliveries(void) {
  sem_init(&docked, 0, 0);
  pthread_mutex_lock(&docks[0]);
  cause_thread("truck 1", deliver_at_dock, 1);
  cause_thread("truck 2", deliver_at_dock, 2);
  sem_post(&docked);
  sem_post(&docked);
}

NOT_INLINED void load_truck(void) {
  pthread_mutex_lock(&docks[1]);
  cause_sink += 4;
}

NOT_INLINED void open_account_twice(void) {
  static pthread_mutex_t account = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&account);
  cause_sink += 1;
  pthread_mutex_lock(&account);
  cause_sink += 2;
}

static struct { pthread_mutex_t branch, vault; } bank = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

/* Returns the time MILLISECONDS from now, on the clock of timed locks. */
static struct timespec in(unsigned milliseconds) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_sec += milliseconds / 1000;
  time.tv_nsec += milliseconds % 1000 * 1000000L;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

NOT_INLINED static void lock_branch_in_time(void) {
  struct timespec time = in(20000);
  if (pthread_mutex_timedlock(&bank.branch, &time) == 0)
    cause_sink += 1;
}

static void *closing(void *argument) {
  (void)argument;
  pthread_mutex_lock(&bank.vault);
  cause_begun();
  lock_branch_in_time();
  return NULL;
}

void begin_closing_branch(void) {
  pthread_mutex_lock(&bank.branch);
  cause_thread("closing", closing, 0);
}

NOT_INLINED void close_branch_in_time(unsigned milliseconds) {
  struct timespec time = in(milliseconds);
  if (pthread_mutex_timedlock(&bank.vault, &time) == ETIMEDOUT)
    cause_sink += 1;
}

NOT_INLINED void wait_for_reply(void) {
  static sem_t reply;
  while (sem_wait(&reply) != 0)
    ;
  cause_sink += 1;
}
