// Functions in C and C++ that stall for a known cause, and their setup. END is a time of CLOCK_MONOTONIC in
// nanoseconds. No function is async-signal-safe. Threads: any, one function at a time.
#ifndef CAUSE_WORK_H
#define CAUSE_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline uint64_t cause_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/// Returns the calling thread's CPU time.
static inline uint64_t cause_processor_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/// Returns the time that the calling thread was runnable without a CPU. Does not allocate, because the first allocation
/// after millions of frees can take as long as these frees.
uint64_t cause_delay(void);

// Computing.
void price_baskets(uint64_t end);
void allocate_buffers(uint64_t end);
void format_receipts(uint64_t end);
void rank_products(uint64_t end);
void compress_archive(uint64_t end);
/// Sorts with a comparison that takes nearly all of the time.
void rank_suppliers(uint64_t end);
/// Loads LuaJIT. Returns false if LuaJIT is not installed.
bool cause_open_script(void);
void run_discount_script(uint64_t end);
/// Calls functions with names of Go's runtime.
void pack_in_go(uint64_t end) __asm__("main.packParcels");
/// Starts a thread that delivers after MILLISECONDS. spin_for_delivery polls without a pause.
void begin_delivery(unsigned milliseconds);
void spin_for_delivery(void);
void enter_multiply_rates(uint64_t end);
void enter_create_sessions(uint64_t end);
void enter_sort_shelves(uint64_t end);
void enter_scan_log_lines(uint64_t end);
void enter_write_summary(uint64_t end);
/// Computes while another thread waits for the lock that the calling thread holds.
void enter_recount_stock(uint64_t end);

// Deallocation. The built structures take about MILLISECONDS to free.
void build_history(unsigned milliseconds);
void free_history(uint64_t end);
void enter_build_customers(unsigned milliseconds);
void enter_clear_customers(uint64_t end);
void enter_build_events(unsigned milliseconds);
void enter_clear_events(uint64_t end);

// Locks: functions that begin with hold_ start a thread or child process that holds the lock for MILLISECONDS.
void hold_ledger(unsigned milliseconds);
void book_payment(void);
void hold_prices(unsigned milliseconds);
void read_prices(void);
void hold_log(unsigned milliseconds);
void write_log_line(void);
pid_t hold_spool_file(const char *path, unsigned milliseconds);
void lock_spool_file(const char *path);
pid_t hold_invoice_number(const char *path, unsigned milliseconds);
void lock_invoice_number(const char *path);
/// Starts THREADS threads that each lock the seats for 0.1 s, in turn with the caller of book_seats.
void begin_serving(unsigned threads, uint64_t end);
void book_seats(uint64_t end);
void enter_hold_register(unsigned milliseconds);
void enter_open_register(void);
void enter_hold_statistics(unsigned milliseconds);
void enter_update_statistics(void);
/// The other thread releases its lock before it takes the calling thread's, so there is no deadlock.
void enter_hold_accounts(unsigned milliseconds);
void enter_move_money(void);

// Deadlocks: functions that begin with begin_ start a thread that holds the lock which the next function takes.
void begin_returning_goods(void);
void transfer_stock(void);
void begin_three_deliveries(void);
void load_truck(void);
void open_account_twice(void);
/// Both waits time out, the calling thread's after MILLISECONDS.
void begin_closing_branch(void);
void close_branch_in_time(unsigned milliseconds);
void enter_begin_refund(void);
void enter_charge_card(void);
/// Waits for a reply that only another task would send. Called by tasks on Swift's pool.
void wait_for_reply(void);

// Signals: another thread signals after MILLISECONDS.
void begin_shipment(unsigned milliseconds);
void await_shipment(void);
void begin_payment(unsigned milliseconds);
void await_payment(void);
void begin_notice(unsigned milliseconds);
void await_notice(void);
void begin_forecast(unsigned milliseconds);
void await_forecast(void);
void enter_begin_printing(unsigned milliseconds);
void enter_await_printer(void);
void enter_begin_quote(unsigned milliseconds);
void enter_await_quote(void);

// Ends of threads.
void begin_import(unsigned milliseconds);
void await_import(void);
void enter_begin_flushing(unsigned milliseconds);
void enter_stop_flusher(void);

// One-time initialization, by another thread, for MILLISECONDS.
void begin_currency_table(unsigned milliseconds);
void show_currency(void);
void enter_begin_tax_rules(unsigned milliseconds);
void enter_apply_tax(void);
void enter_begin_country_names(unsigned milliseconds);
void enter_show_country(void);

// The loader: another thread holds the loader's lock for MILLISECONDS.
void begin_listing_modules(unsigned milliseconds);
void open_plugin(void);
/// Starts a thread that opens the named pipe PATH as a library, which blocks until the pipe has data.
void begin_loading_driver(const char *path, unsigned milliseconds);
void find_entry_point(void);
void enter_list_libraries(void);

// Files.
void save_ledger(const char *directory, uint64_t end);
void append_to_ledger(const char *directory, uint64_t end);
void scan_archive(const char *path, uint64_t end);
void list_spool_directory(const char *directory, uint64_t end);
void enter_append_journal(const char *directory, uint64_t end);
void enter_log_requests(const char *directory, uint64_t end);
/// Returns 0, or an errno value.
int cause_fill_file(const char *path, uint64_t bytes);
/// Reads the file at PATH into the page cache, as far as it fits.
void cause_read_file(const char *path);
/// Evicts the file at PATH from the page cache. Returns the file's device, the major number in the upper half.
uint64_t cause_forget_file(const char *path);
int cause_make_files(const char *directory, unsigned count);

// The network.
/// Returns a connection whose other end answers after MILLISECONDS, or -1.
int begin_warehouse(unsigned milliseconds);
void ask_warehouse(int descriptor);
void enter_await_answer(int descriptor);
void poll_warehouse(int descriptor);
/// Returns the port of a socket whose backlog is full, or -1. The caller closes *LISTENER.
int begin_busy_bank(int *listener);
void connect_to_bank(int port, unsigned milliseconds);
/// Returns a connection whose other end reads nothing for MILLISECONDS.
int begin_slow_reader(unsigned milliseconds);
void upload_images(int descriptor);

// Other processes. Children end by themselves, with their parent, or by cause_end_child.
void cause_end_child(pid_t child);
/// Starts a child that writes a line to DESCRIPTOR after MILLISECONDS.
pid_t cause_late_writer(int descriptor, unsigned milliseconds);
/// Starts a child that reads everything from DESCRIPTOR after MILLISECONDS.
pid_t cause_late_reader(int descriptor, unsigned milliseconds);
/// Starts a child that computes on the CPU PROCESSOR.
pid_t cause_busy_child(int processor);
/// Starts a child that stops its parent for MILLISECONDS, AFTER milliseconds from now.
pid_t cause_stopper(unsigned after, unsigned milliseconds);
/// Starts the program PATH. ARGUMENTS end with NULL.
pid_t cause_program(const char *path, char *const arguments[]);
/// Starts a child that opens the named pipe PATH for writing after MILLISECONDS.
pid_t cause_late_opener(const char *path, unsigned milliseconds);
void read_stock_report(int descriptor);
void open_order_pipe(const char *path);
void send_backlog(int descriptor);
void enter_ask_helper(int descriptor);
void run_backup(pid_t child);
void run_night_script(void);
void enter_convert_images(pid_t child);

// Sleeping.
void throttle_requests(uint64_t end);
void await_tick(unsigned milliseconds);
void poll_nothing_new(unsigned milliseconds);
/// Loads SQLite. Returns false if SQLite is not installed.
bool cause_open_database(void);
/// Starts a child that holds the lock of the database PATH for MILLISECONDS.
pid_t hold_database(const char *path, unsigned milliseconds);
void store_sale(const char *path);
void enter_back_off(unsigned milliseconds);
void enter_pace_retries(unsigned milliseconds);

// CPUs.
/// Pins the calling thread to the CPU PROCESSOR. Returns 0 or an errno value.
int cause_pin(int processor);
/// Returns the first CPU that the calling thread can use.
int cause_first_processor(void);
/// Gives the calling thread the nice value NICE, or SCHED_IDLE if NICE exceeds 19. Returns 0 or an errno value.
int cause_lower_priority(int nice);
/// Hides the calling thread's time without a CPU, until cause_show_delay is called. Returns 0 or an errno value.
int cause_hide_delay(void);
void cause_show_delay(void);
void forecast_demand(uint64_t end);
void enter_fit_curve(uint64_t end);

// Memory.
/// Returns PAGES pages of memory, where the first access to each page takes MILLISECONDS. Returns NULL and sets errno
/// if userfaultfd(2) is refused.
char *cause_late_pages(unsigned pages, unsigned milliseconds);
void look_up_record(const char *page);
void enter_search_index(const char *pages, unsigned count);
/// Reads a mapping of the file at PATH in random order.
void scan_mapped_file(const char *path, uint64_t end);
/// Reads pages of the file at PATH in random order.
void read_catalogue_pages(const char *path, uint64_t end);

// Short jobs of 10 ms.
void handle_message(void);
void enter_apply_event(void);
void store_measurement(void);

// Two causes in one function. The first takes about two thirds of the time.
void reconcile_books(const char *directory, uint64_t end);
void enter_poll_and_parse(uint64_t end);
void begin_auction(unsigned milliseconds);
void close_auction(void);
void enter_begin_checkout(unsigned milliseconds);
void enter_check_out(unsigned milliseconds);

// Keeps a CPU busy until the parent process has ended.
void cause_spin(void);

#ifdef __cplusplus
}
#endif

#endif
